<?php

declare(strict_types=1);

namespace Shop;

use Illuminate\Contracts\Cache\Factory;
use Illuminate\Http\Request;
use Illuminate\Routing\Router;

/**
 * One page for each behaviour.
 */
final class Pages
{
    public static function register(Router $router): void
    {
        $router->middleware('web')->group(static function (Router $router): void {
            foreach (['count', 'login', 'logout', 'stay', 'leave', 'fail', 'save-early'] as $name) {
                $router->get("/$name", self::class . '@' . lcfirst(str_replace('-', '', ucwords($name, '-'))));
            }
            $router->get('/peek', self::class . '@peek')->readOnlySession();
        });
        $router->get('/limited', static fn () => 'served')->middleware('Illuminate\Routing\Middleware\ThrottleRequests:3,1');
        foreach (['lock', 'unlock', 'article', 'publish'] as $name) {
            $router->get("/$name", self::class . "@$name");
        }
    }

    public function count(Request $request): string
    {
        $n = $request->session()->get('n', 0) + 1;
        usleep(1000 * (int) $request->query('hold', '0'));
        $request->session()->put('n', $n);
        return (string) $n;
    }

    public function peek(Request $request): string
    {
        return (string) $request->session()->get('n', 0);
    }

    public function login(Request $request): string
    {
        $before = $request->session()->getId();
        $request->session()->regenerate(true);
        return $before === $request->session()->getId() ? 'the same id' : 'a new id';
    }

    public function logout(Request $request): string
    {
        $request->session()->invalidate();
        return 'bye';
    }

    /** Holds the session until its process is killed; says its pid to whoever reads the file. */
    public function stay(): string
    {
        file_put_contents(storage_path('stays'), getmypid() . "\n");
        sleep(60);
        return 'nobody killed me';
    }

    /** Ends without a word: no terminate(), no save. */
    public function leave(Request $request): never
    {
        $request->session()->put('n', 100);
        exit('left');
    }

    public function fail(Request $request): never
    {
        $request->session()->put('n', 100);
        throw new \DomainException('failed on purpose');
    }

    /** Saves early and works on, holding nothing. */
    public function saveEarly(Request $request): string
    {
        $request->session()->put('n', 50);
        $request->session()->save();
        return 'saved';
    }

    public function lock(Factory $cache): string
    {
        $lock = $cache->store()->lock('order', 60);
        return $lock->get() ? $lock->owner() : 'taken';
    }

    public function unlock(Factory $cache, Request $request): string
    {
        return $cache->store()->restoreLock('order', $request->query('owner'))->release() ? 'released' : 'not its own';
    }

    public function article(Factory $cache): string
    {
        return $cache->store()->tags(['articles'])->remember('article', 60, static fn () => bin2hex(random_bytes(8)));
    }

    public function publish(Factory $cache): string
    {
        $cache->store()->tags(['articles'])->flush();
        return 'published';
    }
}
