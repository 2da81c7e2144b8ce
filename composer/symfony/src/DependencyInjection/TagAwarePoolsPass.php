<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\DependencyInjection;

use Coatcheck\Symfony\Cache\CoatcheckTagAwareAdapter;
use Symfony\Component\DependencyInjection\ChildDefinition;
use Symfony\Component\DependencyInjection\Compiler\CompilerPassInterface;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\DependencyInjection\Definition;

/**
 * FrameworkBundle puts a tag-aware wrapper beside every pool but those of the one adapter that it knows to be tag-aware
 * itself. Pools of ours are, so the pool itself takes the wrapper's place.
 *
 * @internal
 */
final class TagAwarePoolsPass implements CompilerPassInterface
{
    public function process(ContainerBuilder $container): void
    {
        foreach (array_keys($container->findTaggedServiceIds('cache.pool')) as $id) {
            $pool = $container->getDefinition($id);
            if ($pool->isAbstract() || self::rootClass($pool, $container) !== CoatcheckTagAwareAdapter::class) {
                continue;
            }
            $wrapper = $id === 'cache.app' ? 'cache.app.taggable' : ".$id.taggable";
            if ($container->hasDefinition($wrapper)) {
                $container->removeDefinition($wrapper);
                $container->setAlias($wrapper, $id);
            }
        }
    }

    private static function rootClass(Definition $pool, ContainerBuilder $container): ?string
    {
        while ($pool instanceof ChildDefinition && $pool->getClass() === null) {
            $pool = $container->findDefinition($pool->getParent());
        }
        return $pool->getClass();
    }
}
