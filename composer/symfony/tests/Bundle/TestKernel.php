<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Tests\Bundle;

use Coatcheck\Symfony\CoatcheckBundle;
use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Component\Config\Loader\LoaderInterface;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\HttpKernel\Kernel;

/**
 * A Symfony application of FrameworkBundle and ours.
 */
final class TestKernel extends Kernel
{
    /**
     * @param array<string, array<string, mixed>> $config by extension, on top of the least that FrameworkBundle needs
     * @param callable(ContainerBuilder): void $configure
     */
    public function __construct(
        private readonly string $directory,
        private readonly array $config,
        private $configure,
        bool $debug = false,
    ) {
        parent::__construct('test', $debug);
    }

    public function registerBundles(): iterable
    {
        return [new FrameworkBundle(), new CoatcheckBundle()];
    }

    public function registerContainerConfiguration(LoaderInterface $loader): void
    {
        $loader->load(function (ContainerBuilder $container): void {
            $framework = ['secret' => 'test', 'test' => true, 'http_method_override' => false];
            $container->loadFromExtension('framework', array_replace($framework, $this->config['framework'] ?? []));
            $container->loadFromExtension('coatcheck', $this->config['coatcheck'] ?? []);
            ($this->configure)($container);
        });
    }

    public function getProjectDir(): string
    {
        return $this->directory;
    }
}
