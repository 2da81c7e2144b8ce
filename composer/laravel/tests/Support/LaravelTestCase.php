<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Tests\Support;

use Coatcheck\Client\Client;
use Coatcheck\Laravel\Cache\CoatcheckStore;
use Coatcheck\Laravel\CoatcheckServiceProvider;
use Coatcheck\Laravel\Session\CoatcheckSessionHandler;
use Coatcheck\Tests\Packages\Daemon;
use Illuminate\Cache\CacheServiceProvider;
use Illuminate\Cache\Repository as Cache;
use Illuminate\Config\Repository as Config;
use Illuminate\Filesystem\Filesystem;
use Illuminate\Foundation\Application;
use Illuminate\Session\SessionServiceProvider;
use Illuminate\Support\Facades\Facade;
use PHPUnit\Framework\TestCase;

/**
 * A test with an application of Laravel's that has the package's provider, and a keyspace of its own in the daemon that
 * the suite shares.
 */
abstract class LaravelTestCase extends TestCase
{
    protected Application $app;
    protected RecordingLog $log;
    protected string $prefix;

    protected function setUp(): void
    {
        $this->prefix = 'test-' . bin2hex(random_bytes(4)) . '-';
        $this->log = new RecordingLog();
        $this->app = $this->application();
    }

    protected function tearDown(): void
    {
        Facade::clearResolvedInstances();
        Application::setInstance(null);
    }

    /** @param array<string, mixed> $config as of Repository::set(), besides what every test has */
    protected function application(array $config = []): Application
    {
        $app = new Application(getenv('COATCHECK_TEST_DIR') . '/app');
        $app->instance('config', new Config(['app' => ['name' => 'test'], 'cache' => [], 'session' => []]));
        $app->make('config')->set($config + [
            'cache.default' => 'coatcheck',
            'cache.prefix' => $this->prefix,
            'coatcheck.dsn' => Daemon::sharedSocket(),
            'coatcheck.session' => ['prefix' => $this->prefix, 'lock_wait' => 5],
            'session.driver' => 'coatcheck',
            'session.cookie' => 'laravel_session',
            'session.lifetime' => 2,
            'session.lottery' => [0, 1],
            'session.path' => '/',
            'session.domain' => null,
            'session.secure' => false,
            'session.expire_on_close' => false,
        ]);
        $app->instance('log', $this->log);
        $app->instance('files', new Filesystem());
        Facade::setFacadeApplication($app);
        foreach ([CacheServiceProvider::class, SessionServiceProvider::class, CoatcheckServiceProvider::class] as $provider) {
            $app->register($provider);
        }
        $app->boot();
        return $app;
    }

    protected function cache(): Cache
    {
        return $this->app->make('cache')->store('coatcheck');
    }

    protected function store(): CoatcheckStore
    {
        return $this->cache()->getStore();
    }

    /** A connection of the test's own, to look at what the application left. */
    protected function client(): Client
    {
        return Client::connect(Daemon::sharedSocket(), ['persistent' => false, 'transport' => 'stream']);
    }

    protected function values(): \Coatcheck\Client\Bucket
    {
        return $this->client()->bucket("laravel:$this->prefix");
    }

    /** The handler of another process, as far as the daemon can tell. */
    protected function handler(array $config = []): CoatcheckSessionHandler
    {
        return $this->application($config)->make(CoatcheckSessionHandler::class);
    }

    protected static function eventually(string $what, callable $condition, float $seconds = 10.0): void
    {
        Daemon::eventually($what, $condition, $seconds);
    }
}
