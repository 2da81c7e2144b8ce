<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\DependencyInjection;

use Coatcheck\Client\Client;
use Coatcheck\Symfony\Cache\CoatcheckAdapter;
use Coatcheck\Symfony\Cache\CoatcheckTagAwareAdapter;
use Coatcheck\Symfony\Session\SessionOptions;
use Symfony\Component\Config\Definition\Builder\ArrayNodeDefinition;
use Symfony\Component\Config\Definition\Builder\TreeBuilder;
use Symfony\Component\Config\Definition\ConfigurationInterface;

/**
 * The settings under `coatcheck:`.
 */
final class Configuration implements ConfigurationInterface
{
    public function getConfigTreeBuilder(): TreeBuilder
    {
        $tree = new TreeBuilder('coatcheck');
        $root = $tree->getRootNode();
        $root->children()->scalarNode('dsn')
            ->info('The socket of the daemon, with options of Coatcheck\Client\Client::connect() as its query.')
            ->defaultValue('coatcheck://' . Client::DEFAULT_SOCKET)->cannotBeEmpty();
        $root->append(self::cache())->append(self::lock())->append(self::session());
        return $tree;
    }

    private static function cache(): ArrayNodeDefinition
    {
        $section = self::section('cache');
        $section->children()->scalarNode('bucket')
            ->info('What the names of the buckets begin with; applications that share a daemon need one each.')
            ->defaultValue(CoatcheckAdapter::DEFAULT_BUCKET)->cannotBeEmpty();
        $section->children()->integerNode('max_lifetime')
            ->info('The longest life of a tagged item, in seconds.')
            ->defaultValue(CoatcheckTagAwareAdapter::DEFAULT_MAX_LIFETIME)->min(1);
        return $section;
    }

    private static function lock(): ArrayNodeDefinition
    {
        $section = self::section('lock');
        $section->children()->booleanNode('default')
            ->info("Make LockFactory and Symfony's own lock.factory use coatcheck.lock.store.")->defaultFalse();
        $section->children()->floatNode('initial_ttl')
            ->info('How many seconds a lock lasts until its own TTL is set.')->defaultValue(300.0)->min(0.001);
        $section->children()->scalarNode('max_wait')
            ->info('How many seconds a blocking acquisition waits; null for no limit.')->defaultNull()
            ->validate()
                ->ifTrue(static fn (mixed $seconds): bool => $seconds !== null && !is_numeric($seconds))
                ->thenInvalid('must be a number of seconds or null, not %s')
            ->end();
        $section->children()->scalarNode('bucket')
            ->info('A keyspace of its own for the names of the locks.')->defaultValue('');
        return $section;
    }

    private static function session(): ArrayNodeDefinition
    {
        $section = self::section('session');
        $info = [
            'prefix' => 'A keyspace of its own for the ids.',
            'ttl' => 'Seconds; session.gc_maxlifetime unless given.',
            'locking' => 'Does a session belong to one request at a time?',
            'lock_lease' => 'Seconds that a lock lasts once nobody can renew it any more.',
            'lock_wait' => 'Seconds that the daemon waits for a contended lock.',
            'lock_failure' => 'What a contended lock means after that wait: unlocked, readonly or fail.',
        ];
        foreach (SessionOptions::DEFAULTS as $name => $default) {
            $section->children()->scalarNode($name)->info($info[$name])->defaultValue($default);
        }
        return $section;
    }

    private static function section(string $name): ArrayNodeDefinition
    {
        $section = (new TreeBuilder($name))->getRootNode();
        $section->addDefaultsIfNotSet();
        return $section;
    }
}
