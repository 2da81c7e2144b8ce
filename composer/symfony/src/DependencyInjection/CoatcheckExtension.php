<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\DependencyInjection;

use Coatcheck\Client\Client;
use Coatcheck\Symfony\Cache\CoatcheckAdapter;
use Coatcheck\Symfony\Cache\CoatcheckTagAwareAdapter;
use Coatcheck\Symfony\Lock\BoundCoatcheckStore;
use Coatcheck\Symfony\Lock\CoatcheckStore;
use Coatcheck\Symfony\Session\CoatcheckSessionHandler;
use Symfony\Component\Cache\Adapter\AbstractAdapter;
use Symfony\Component\DependencyInjection\Argument\AbstractArgument;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\DependencyInjection\ContainerInterface;
use Symfony\Component\DependencyInjection\Definition;
use Symfony\Component\DependencyInjection\Extension\Extension;
use Symfony\Component\DependencyInjection\Reference;
use Symfony\Component\HttpFoundation\Session\Storage\Handler\AbstractSessionHandler;
use Symfony\Component\Lock\LockFactory;

/**
 * The services:
 *  - coatcheck.client, also by its class
 *  - cache.adapter.coatcheck and cache.adapter.coatcheck_tag_aware, to be named in framework.cache
 *  - coatcheck.lock.store, coatcheck.lock.bound_store and a LockFactory for each: coatcheck.lock.factory,
 *    coatcheck.lock.bound_factory
 *  - coatcheck.session_handler, to be named in framework.session.handler_id
 *
 * What stands on a component that is not installed is left out.
 */
final class CoatcheckExtension extends Extension
{
    public function load(array $configs, ContainerBuilder $container): void
    {
        $config = $this->processConfiguration(new Configuration(), $configs);
        $client = (new Definition(Client::class, [$config['dsn']]))->setFactory([Client::class, 'connect']);
        $container->setDefinition('coatcheck.client', $client);
        $container->setAlias(Client::class, 'coatcheck.client');
        if (class_exists(AbstractAdapter::class)) {
            self::addCache($config['cache'], $container);
        }
        if (class_exists(LockFactory::class)) {
            self::addLocks($config['lock'], $container);
        }
        if (class_exists(AbstractSessionHandler::class)) {
            $arguments = [new Reference('coatcheck.client'), $config['session'], self::logger()];
            $container->setDefinition('coatcheck.session_handler', self::logging(
                new Definition(CoatcheckSessionHandler::class, $arguments),
                'session',
            ));
        }
    }

    /** @param array<string, mixed> $config */
    private static function addCache(array $config, ContainerBuilder $container): void
    {
        $container->setDefinition(
            'cache.adapter.coatcheck',
            self::adapter(CoatcheckAdapter::class, [$config['bucket']]),
        );
        $container->setDefinition(
            'cache.adapter.coatcheck_tag_aware',
            self::adapter(CoatcheckTagAwareAdapter::class, [$config['bucket'], $config['max_lifetime']]),
        );
    }

    /**
     * A parent of pools, as Symfony's own adapters are.
     *
     * @param class-string $class
     * @param list<mixed> $more arguments after those that every pool has
     */
    private static function adapter(string $class, array $more): Definition
    {
        $marshaller = new Reference('cache.default_marshaller', ContainerInterface::IGNORE_ON_INVALID_REFERENCE);
        $adapter = new Definition($class, [new AbstractArgument('client'), '', 0, $marshaller, ...$more]);
        $adapter->setAbstract(true);
        $adapter->addMethodCall('setLogger', [self::logger(ContainerInterface::IGNORE_ON_INVALID_REFERENCE)]);
        $adapter->addTag('cache.pool', [
            'provider' => 'coatcheck.client', 'clearer' => 'cache.default_clearer', 'reset' => 'reset',
        ]);
        return self::logging($adapter, 'cache');
    }

    /** @param array<string, mixed> $config */
    private static function addLocks(array $config, ContainerBuilder $container): void
    {
        $container->setParameter('coatcheck.lock.default', $config['default']);
        $client = new Reference('coatcheck.client');
        $arguments = ['$maxWait' => $config['max_wait'], '$bucket' => $config['bucket']];
        $stores = [
            '' => new Definition(CoatcheckStore::class, [$client, $config['initial_ttl']] + $arguments),
            'bound_' => new Definition(BoundCoatcheckStore::class, [$client] + $arguments),
        ];
        foreach ($stores as $kind => $store) {
            $container->setDefinition("coatcheck.lock.{$kind}store", $store);
            $factory = new Definition(LockFactory::class, [new Reference("coatcheck.lock.{$kind}store")]);
            $factory->addMethodCall('setLogger', [self::logger(ContainerInterface::IGNORE_ON_INVALID_REFERENCE)]);
            $container->setDefinition("coatcheck.lock.{$kind}factory", self::logging($factory, 'lock'));
        }
    }

    private static function logger(int $whenMissing = ContainerInterface::NULL_ON_INVALID_REFERENCE): Reference
    {
        return new Reference('logger', $whenMissing);
    }

    private static function logging(Definition $definition, string $channel): Definition
    {
        return $definition->addTag('monolog.logger', ['channel' => $channel]);
    }
}
