<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\DependencyInjection;

use Symfony\Component\DependencyInjection\Compiler\CompilerPassInterface;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\Lock\LockFactory;

/**
 * With `coatcheck.lock.default` whoever asks Symfony for a lock gets one of coatcheck's. framework.lock cannot name a
 * store of ours: it knows a fixed list of DSNs.
 *
 * @internal
 */
final class DefaultLockPass implements CompilerPassInterface
{
    public function process(ContainerBuilder $container): void
    {
        $wanted = 'coatcheck.lock.default';
        if (!$container->hasParameter($wanted) || !$container->getParameter($wanted)) {
            return;
        }
        foreach ([LockFactory::class, 'lock.factory', 'lock.default.factory'] as $id) {
            $container->removeDefinition($id);
            $container->setAlias($id, 'coatcheck.lock.factory');
        }
    }
}
