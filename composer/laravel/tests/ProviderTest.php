<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Tests;

use Coatcheck\Laravel\Cache\CoatcheckStore;
use Coatcheck\Laravel\CoatcheckServiceProvider;
use Coatcheck\Laravel\Tests\Support\LaravelTestCase;
use Coatcheck\Tests\Packages\Daemon;
use Illuminate\Cache\Events\CacheHit;
use Illuminate\Console\Application as Artisan;
use Illuminate\Contracts\Cache\LockProvider;
use Illuminate\Filesystem\Filesystem;
use Illuminate\Foundation\PackageManifest;
use Illuminate\Support\ServiceProvider;
use Symfony\Component\Console\Tester\CommandTester;

/**
 * What the provider makes known, and the commands.
 */
final class ProviderTest extends LaravelTestCase
{
    public function testLaravelDiscoversTheProvider(): void
    {
        $base = $this->directory();
        mkdir("$base/vendor/composer", 0777, true);
        $package = json_decode((string) file_get_contents(__DIR__ . '/../composer.json'), true);
        file_put_contents("$base/vendor/composer/installed.json", json_encode(['packages' => [$package]]));
        file_put_contents("$base/composer.json", '{}');
        $manifest = new PackageManifest(new Filesystem(), $base, "$base/packages.php");
        self::assertSame([CoatcheckServiceProvider::class], $manifest->providers());
    }

    public function testAStoreOfThatNameIsThereWithoutAnyConfiguration(): void
    {
        self::assertInstanceOf(CoatcheckStore::class, $this->app->make('cache')->store()->getStore());
        self::assertInstanceOf(LockProvider::class, $this->store());
        self::assertSame($this->prefix, $this->store()->getPrefix());
    }

    public function testAStoreMayHaveItsOwnPrefixAndDaemon(): void
    {
        $daemon = Daemon::start();
        $app = $this->application(['cache.stores.second' => [
            'driver' => 'coatcheck', 'prefix' => 'second', 'dsn' => "coatcheck://$daemon->socket?timeout=1",
        ]]);
        $second = $app->make('cache')->store('second');
        $second->put('k', 'v', 60);
        self::assertSame('second', $second->getStore()->getPrefix());
        self::assertSame(1, $second->getStore()->client()->status()['values']);
        self::assertNull($app->make('cache')->store('coatcheck')->get('k'));
    }

    public function testAStoreThatIsConfiguredIsLeftAlone(): void
    {
        $app = $this->application(['cache.stores.coatcheck' => ['driver' => 'coatcheck', 'prefix' => 'mine']]);
        self::assertSame('mine', $app->make('cache')->store('coatcheck')->getStore()->getPrefix());
    }

    public function testCacheEventsAreFired(): void
    {
        $hits = [];
        $this->app->make('events')->listen(CacheHit::class, function (CacheHit $hit) use (&$hits): void {
            $hits[] = [$hit->key, $hit->value];
        });
        $this->app->make('cache')->forgetDriver('coatcheck');
        $this->cache()->put('k', 'v', 60);
        $this->cache()->get('k');
        $this->cache()->tags('t')->put('k', 'tagged', 60);
        $this->cache()->tags('t')->get('k');
        self::assertSame([['k', 'v'], ['k', 'tagged']], $hits);
    }

    public function testTheConfigurationIsPublished(): void
    {
        $paths = ServiceProvider::pathsToPublish(CoatcheckServiceProvider::class, 'coatcheck-config');
        self::assertCount(1, $paths);
        self::assertSame($this->app->configPath('coatcheck.php'), array_values($paths)[0]);
        $published = require array_keys($paths)[0];
        self::assertSame('/run/coatcheck/coatcheck.sock', $published['dsn']);
        self::assertSame(
            ['prefix', 'locking', 'lock_lease', 'lock_wait', 'lock_failure', 'read_only'],
            array_keys($published['session']),
        );
    }

    public function testStatusShowsTheDaemon(): void
    {
        [$code, $text] = $this->artisan('coatcheck:status');
        self::assertSame(0, $code);
        self::assertMatchesRegularExpression('/\| version +\| \S+/', $text);
        self::assertMatchesRegularExpression('/\| locks +\| \d+/', $text);
        [$code, $json] = $this->artisan('coatcheck:status', ['--json' => true]);
        self::assertSame(0, $code);
        self::assertArrayHasKey('uptime_ms', json_decode($json, true));
    }

    public function testLocksShowsWhoHoldsWhatAndNoSecret(): void
    {
        $lock = $this->cache()->lock('nightly-report', 60);
        $lock->get();
        $handler = $this->handler();
        $id = bin2hex(random_bytes(20));
        $handler->read($id);
        [$code, $text] = $this->artisan('coatcheck:locks');
        self::assertSame(0, $code);
        self::assertStringContainsString('nightly-report', $text);
        self::assertStringContainsString("laravel:$this->prefix", $text);
        self::assertStringContainsString('pid ' . getmypid(), $text);
        self::assertStringContainsString(substr($id, 0, 6) . '…', $text);
        self::assertStringNotContainsString($id, $text);
        self::assertStringNotContainsString($lock->owner(), $text);
        [, $json] = $this->artisan('coatcheck:locks', ['--json' => true, '--limit' => '1']);
        self::assertCount(1, json_decode($json, true));
    }

    public function testLocksSaysWhenThereIsNone(): void
    {
        $daemon = Daemon::start();
        [$code, $text] = $this->artisan('coatcheck:locks', ['--dsn' => $daemon->socket]);
        self::assertSame(0, $code);
        self::assertStringContainsString('No lock is held.', $text);
    }

    public function testACommandWithoutADaemonSaysWhichSocketAndFails(): void
    {
        foreach (['coatcheck:status', 'coatcheck:locks'] as $command) {
            [$code, $text] = $this->artisan($command, ['--dsn' => '/nonexistent/coatcheck.sock']);
            self::assertSame(1, $code);
            self::assertStringContainsString('/nonexistent/coatcheck.sock', $text);
        }
    }

    /**
     * @param array<string, mixed> $arguments
     * @return array{int, string} exit code and what it printed
     */
    private function artisan(string $name, array $arguments = []): array
    {
        $tester = new CommandTester((new Artisan($this->app, $this->app->make('events'), 'test'))->find($name));
        return [$tester->execute($arguments), $tester->getDisplay()];
    }

    private function directory(): string
    {
        $directory = getenv('COATCHECK_TEST_DIR') . '/' . bin2hex(random_bytes(4));
        mkdir($directory);
        return $directory;
    }
}
