<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Tests\Bundle;

use Coatcheck\Client\Client;
use Coatcheck\Symfony\Cache\CoatcheckAdapter;
use Coatcheck\Symfony\Cache\CoatcheckTagAwareAdapter;
use Coatcheck\Symfony\DependencyInjection\Configuration;
use Coatcheck\Symfony\Lock\BoundCoatcheckStore;
use Coatcheck\Symfony\Session\CoatcheckSessionHandler;
use Coatcheck\Symfony\Tests\AsksDaemon;
use Coatcheck\Tests\Packages\Daemon;
use PHPUnit\Framework\TestCase;
use Symfony\Bundle\FrameworkBundle\Console\Application;
use Symfony\Component\Cache\Adapter\TagAwareAdapter;
use Symfony\Component\Cache\Adapter\TraceableAdapter;
use Symfony\Component\Cache\Adapter\TraceableTagAwareAdapter;
use Symfony\Component\Config\Definition\Exception\InvalidConfigurationException;
use Symfony\Component\Config\Definition\Processor;
use Symfony\Component\Console\Tester\CommandTester;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\DependencyInjection\Reference;
use Symfony\Component\Filesystem\Filesystem;
use Symfony\Component\HttpKernel\KernelInterface;

/**
 * The bundle in a real kernel.
 */
final class CoatcheckBundleTest extends TestCase
{
    use AsksDaemon;

    private string $directory;
    private ?KernelInterface $kernel = null;

    /** @var array{callable|null, callable|null} of errors and exceptions, before a kernel sets its own */
    private array $handlers;

    protected function setUp(): void
    {
        $this->directory = getenv('COATCHECK_TEST_DIR') . '/kernel-' . bin2hex(random_bytes(4));
        mkdir($this->directory);
        $this->handlers = self::handlers();
    }

    protected function tearDown(): void
    {
        $this->kernel?->shutdown();
        for ($i = 0; $i < 9 && self::handlers()[0] !== $this->handlers[0]; $i++) {
            restore_error_handler();
        }
        for ($i = 0; $i < 9 && self::handlers()[1] !== $this->handlers[1]; $i++) {
            restore_exception_handler();
        }
        (new Filesystem())->remove($this->directory);
    }

    public function testPoolsLocksAndClientAreWired(): void
    {
        $consumer = $this->boot()->get(Consumer::class);

        self::assertInstanceOf(CoatcheckAdapter::class, $consumer->plain);
        self::assertInstanceOf(CoatcheckTagAwareAdapter::class, $consumer->tagged, 'without a second index over it');
        self::assertInstanceOf(TagAwareAdapter::class, $consumer->wrapped, "Symfony's own over the plain adapter");
        self::assertInstanceOf(CoatcheckTagAwareAdapter::class, $consumer->app);
        self::assertSame($consumer->app, $consumer->appTagged);
        self::assertInstanceOf(Client::class, $consumer->client);
        self::assertSame(Daemon::sharedSocket(), $consumer->client->transport->socket());
    }

    public function testPoolsStoreInBucketsOfTheirOwn(): void
    {
        $consumer = $this->boot()->get(Consumer::class);
        foreach ([$consumer->plain, $consumer->tagged, $consumer->wrapped, $consumer->app] as $i => $pool) {
            $pool->save($pool->getItem('key')->set($i));
        }
        $consumer->tagged->clear();
        $hits = [];
        foreach ([$consumer->plain, $consumer->tagged, $consumer->wrapped, $consumer->app] as $pool) {
            $hits[] = $pool->getItem('key')->get();
        }

        self::assertSame([0, null, 2, 3], $hits);
    }

    public function testTheDefaultLifetimeOfAPoolIsKept(): void
    {
        $pool = $this->boot()->get(Consumer::class)->plain;
        $pool->save($pool->getItem('key')->set('x'));
        Daemon::eventually('it expires', static fn () => !$pool->getItem('key')->isHit());

        self::assertFalse($pool->hasItem('key'));
    }

    public function testLocksOfTheApplicationAreOurs(): void
    {
        $container = $this->boot(['lock' => ['default' => true]]);
        $lock = $container->get(Consumer::class)->locks->createLock($name = self::freshName());

        self::assertTrue($lock->acquire());
        self::assertNotNull(self::client()->lockInfo($name));
        $lock->release();
        self::assertSame($container->get('test.lock.factory'), $container->get(Consumer::class)->locks);
    }

    public function testLocksOfTheApplicationStayWhatTheyAreUnlessAskedFor(): void
    {
        $container = $this->boot();
        $lock = $container->get(Consumer::class)->locks->createLock($name = self::freshName());
        $lock->acquire();
        self::assertNull(self::client()->lockInfo($name));
        $lock->release();

        self::assertInstanceOf(BoundCoatcheckStore::class, $container->get('test.bound_store'));
        $ours = $container->get('test.factory')->createLock($name);
        self::assertTrue($ours->acquire());
        self::assertNotNull(self::client()->lockInfo($name));
        $ours->release();
    }

    public function testTheSessionHandlerIsOursWithItsOptions(): void
    {
        $container = $this->boot(['session' => ['prefix' => $prefix = self::freshName(), 'ttl' => 77]]);
        $handler = $container->get('test.session_handler');
        self::assertInstanceOf(CoatcheckSessionHandler::class, $handler);
        $handler->open('', 'PHPSESSID');
        $handler->read($id = bin2hex(random_bytes(16)));
        $handler->write($id, 'data');
        $handler->close();

        self::assertSame('data', self::client()->openSession($id, prefix: $prefix)->data);
    }

    public function testTheProfilerSeesThePools(): void
    {
        $container = $this->boot(debug: true, framework: ['profiler' => ['collect' => true]]);
        $consumer = $container->get(Consumer::class);
        self::assertInstanceOf(TraceableAdapter::class, $consumer->plain);
        self::assertInstanceOf(TraceableTagAwareAdapter::class, $consumer->tagged);

        $consumer->tagged->getItem('key');
        $consumer->tagged->invalidateTags(['red']);

        $calls = array_map(static fn (object $call) => $call->name, $consumer->tagged->getCalls());
        self::assertSame(['getItem', 'invalidateTags'], $calls);
    }

    public function testTheConsoleClearsPoolsAndDeletesItems(): void
    {
        $container = $this->boot();
        $pool = $container->get(Consumer::class)->tagged;
        $application = new Application($this->kernel);
        $commands = [
            'cache:pool:clear' => ['pools' => ['tagged']],
            'cache:pool:delete' => ['pool' => 'tagged', 'key' => 'key'],
            'cache:pool:prune' => [],
        ];
        foreach ($commands as $name => $input) {
            $pool->save($pool->getItem('key')->set('x'));
            $tester = new CommandTester($application->find($name));
            self::assertSame(0, $tester->execute($input), $tester->getDisplay());
            self::assertSame($name === 'cache:pool:prune', $pool->hasItem('key'), $name);
        }
    }

    public function testTheDsnMayComeFromTheEnvironment(): void
    {
        $_SERVER['COATCHECK_TEST_DSN'] = 'coatcheck://' . Daemon::sharedSocket() . '?timeout=3';
        try {
            $client = $this->boot(['dsn' => '%env(COATCHECK_TEST_DSN)%'])->get(Consumer::class)->client;
            $client->ping();
            self::assertSame(Daemon::sharedSocket(), $client->transport->socket());
        } finally {
            unset($_SERVER['COATCHECK_TEST_DSN']);
        }
    }

    public function testEverySettingMayBeGivenAsItsDefault(): void
    {
        $defaults = [
            'dsn' => 'coatcheck:///run/coatcheck/coatcheck.sock',
            'cache' => ['bucket' => 'cache', 'max_lifetime' => 8640000],
            'lock' => ['default' => false, 'initial_ttl' => 300.0, 'max_wait' => null, 'bucket' => ''],
            'session' => [
                'prefix' => '', 'ttl' => null, 'locking' => true, 'lock_lease' => 30.0, 'lock_wait' => 30.0,
                'lock_failure' => 'unlocked',
            ],
        ];
        $processor = new Processor();

        self::assertSame($defaults, $processor->processConfiguration(new Configuration(), []));
        self::assertSame($defaults, $processor->processConfiguration(new Configuration(), [$defaults]));
    }

    public function testAPoolMayHaveAnotherClient(): void
    {
        $other = Daemon::start();
        $container = $this->boot(other: $other->socket);
        $pool = $container->get('test.elsewhere');
        $pool->save($pool->getItem('key')->set('x'));

        self::assertTrue($pool->hasItem('key'));
        self::assertSame(1, self::streamClientAt($other->socket)->status()['values']);
    }

    public function testAWrongSettingIsRefusedWhenTheContainerIsBuilt(): void
    {
        $this->expectException(InvalidConfigurationException::class);
        $this->boot(['sesion' => []]);
    }

    public function testNothingConnectsBeforeItIsUsed(): void
    {
        $container = $this->boot(['dsn' => 'coatcheck:///nowhere/coatcheck.sock?transport=stream']);

        self::assertInstanceOf(CoatcheckAdapter::class, $container->get(Consumer::class)->plain);
    }

    /** @return array{callable|null, callable|null} */
    private static function handlers(): array
    {
        $handlers = [set_error_handler(null), set_exception_handler(null)];
        restore_error_handler();
        restore_exception_handler();
        return $handlers;
    }

    /**
     * @param array<string, mixed> $config
     * @param array<string, mixed> $framework
     */
    private function boot(
        array $config = [],
        array $framework = [],
        bool $debug = false,
        string $other = '/nowhere/coatcheck.sock',
    ): object {
        $config += ['dsn' => 'coatcheck://' . Daemon::sharedSocket()];
        $framework += [
            'session' => [
                'handler_id' => 'coatcheck.session_handler',
                'storage_factory_id' => 'session.storage.factory.native',
                'cookie_secure' => 'auto', 'cookie_samesite' => 'lax',
            ],
            'lock' => 'flock',
            'cache' => [
                'prefix_seed' => $this->directory,
                'app' => 'cache.adapter.coatcheck_tag_aware',
                'pools' => [
                    'plain' => ['adapter' => 'cache.adapter.coatcheck', 'default_lifetime' => 1],
                    'tagged' => ['adapter' => 'cache.adapter.coatcheck_tag_aware'],
                    'wrapped' => ['adapter' => 'cache.adapter.coatcheck', 'tags' => true],
                    'elsewhere' => ['adapter' => 'cache.adapter.coatcheck', 'provider' => 'other_coatcheck'],
                ],
            ],
        ];
        $configure = static function (ContainerBuilder $container) use ($other): void {
            $container->register('other_coatcheck', Client::class)
                ->setFactory([Client::class, 'connect'])->setArguments([$other, ['transport' => 'stream']]);
            $container->register(Consumer::class)->setAutowired(true)->setPublic(true)
                ->setArgument('$app', new Reference('cache.app'))
                ->setArgument('$appTagged', new Reference('cache.app.taggable'));
            foreach (
                [
                    'test.bound_store' => 'coatcheck.lock.bound_store',
                    'test.factory' => 'coatcheck.lock.factory',
                    'test.lock.factory' => 'lock.factory',
                    'test.session_handler' => 'session.handler',
                    'test.elsewhere' => 'elsewhere',
                ] as $alias => $id
            ) {
                $container->setAlias($alias, $id)->setPublic(true);
            }
        };
        $this->kernel = new TestKernel(
            $this->directory,
            ['framework' => $framework, 'coatcheck' => $config],
            $configure,
            $debug,
        );
        $this->kernel->boot();
        return $this->kernel->getContainer();
    }
}
