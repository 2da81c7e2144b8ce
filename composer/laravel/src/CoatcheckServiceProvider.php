<?php

declare(strict_types=1);

namespace Coatcheck\Laravel;

use Coatcheck\Laravel\Cache\CoatcheckStore;
use Coatcheck\Laravel\Console\LocksCommand;
use Coatcheck\Laravel\Console\StatusCommand;
use Coatcheck\Laravel\RateLimiting\AtomicRateLimiter;
use Coatcheck\Laravel\Session\CoatcheckSessionHandler;
use Coatcheck\Laravel\Session\CurrentRequest;
use Coatcheck\Laravel\Session\SessionOptions;
use Illuminate\Cache\CacheManager;
use Illuminate\Cache\RateLimiter;
use Illuminate\Routing\Route;
use Illuminate\Session\SessionManager;
use Illuminate\Support\ServiceProvider;

/**
 * Makes the drivers `coatcheck` of cache and session known, and a cache store of that name.
 */
final class CoatcheckServiceProvider extends ServiceProvider
{
    private const CONFIG = __DIR__ . '/../config/coatcheck.php';

    public function register(): void
    {
        $this->mergeConfigFrom(self::CONFIG, 'coatcheck');
        $config = $this->app->make('config');
        if (!$config->has('cache.stores.coatcheck')) {
            $config->set('cache.stores.coatcheck', ['driver' => 'coatcheck']);
        }
        $this->app->singleton(Clients::class, static function ($app): Clients {
            $config = $app->make('config');
            return new Clients($config->get('coatcheck.dsn'), $config->get('coatcheck.options', []));
        });
        $this->app->singleton(CoatcheckSessionHandler::class, self::sessionHandler(...));
        $this->callAfterResolving('cache', self::extendCache(...));
        $this->callAfterResolving('session', self::extendSession(...));
        $this->app->extend(RateLimiter::class, static fn (RateLimiter $limiter) => AtomicRateLimiter::insteadOf($limiter));
    }

    public function boot(): void
    {
        $this->publishes([self::CONFIG => $this->app->configPath('coatcheck.php')], 'coatcheck-config');
        $this->commands([StatusCommand::class, LocksCommand::class]);
        $this->app->terminating($this->endSession(...));
        if (class_exists(Route::class)) {
            Route::macro('readOnlySession', function (): Route {
                /** @var Route $this */
                return $this->setAction([CurrentRequest::READ_ONLY => true] + $this->getAction());
            });
        }
    }

    /** @param array<string, mixed> $settings of a store in config/cache.php: dsn and prefix may be given */
    public static function store(mixed $app, array $settings): CoatcheckStore
    {
        $config = $app->make('config');
        return new CoatcheckStore(
            $app->make(Clients::class)->get($settings['dsn'] ?? null),
            (string) ($settings['prefix'] ?? $config->get('cache.prefix', '')),
            $config->get('cache.serializable_classes') ?? true,
        );
    }

    private static function extendCache(CacheManager $cache): void
    {
        // Laravel binds the function to its manager, so it may be neither static nor a method's.
        $cache->extend('coatcheck', function ($app, array $settings) use ($cache) {
            return $cache->repository(CoatcheckServiceProvider::store($app, $settings), $settings);
        });
    }

    private static function extendSession(SessionManager $sessions): void
    {
        $sessions->extend('coatcheck', function ($app) {
            return $app->make(CoatcheckSessionHandler::class);
        });
    }

    private static function sessionHandler(mixed $app): CoatcheckSessionHandler
    {
        $config = $app->make('config');
        $settings = $config->get('coatcheck.session', []);
        return new CoatcheckSessionHandler(
            $app->make(Clients::class)->get(),
            SessionOptions::from($settings, $config->get('session.lifetime', 120)),
            new CurrentRequest($settings['read_only'] ?? []),
            $app->make('log'),
        );
    }

    private function endSession(): void
    {
        if ($this->app->resolved(CoatcheckSessionHandler::class)) {
            $this->app->make(CoatcheckSessionHandler::class)->end();
        }
    }
}
