<?php

declare(strict_types=1);

namespace Coatcheck\Symfony;

use Coatcheck\Symfony\DependencyInjection\DefaultLockPass;
use Coatcheck\Symfony\DependencyInjection\TagAwarePoolsPass;
use Symfony\Component\DependencyInjection\Compiler\PassConfig;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\HttpKernel\Bundle\Bundle;

/**
 * Makes the client, the cache adapters, the lock stores and the session handler services of a Symfony application; see
 * DependencyInjection\Configuration for the settings.
 */
final class CoatcheckBundle extends Bundle
{
    public function build(ContainerBuilder $container): void
    {
        // Before Symfony's pass that gives the pools their arguments and takes their tags away.
        $container->addCompilerPass(new TagAwarePoolsPass(), PassConfig::TYPE_BEFORE_OPTIMIZATION, 64);
        $container->addCompilerPass(new DefaultLockPass());
    }
}
