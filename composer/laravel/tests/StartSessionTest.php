<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Tests;

use Coatcheck\Laravel\Session\CoatcheckSessionHandler;
use Coatcheck\Laravel\Tests\Support\LaravelTestCase;
use Coatcheck\Tests\Packages\Child;
use Illuminate\Contracts\Cache\LockTimeoutException;
use Illuminate\Encryption\Encrypter;
use Illuminate\Foundation\Application;
use Illuminate\Http\Request;
use Illuminate\Http\Response;
use Illuminate\Routing\Route;
use Illuminate\Session\Middleware\StartSession;
use Illuminate\Session\Store;

/**
 * The session driver under Laravel's own middleware and session store.
 */
final class StartSessionTest extends LaravelTestCase
{
    public function testTheDriverIsOurs(): void
    {
        self::assertInstanceOf(CoatcheckSessionHandler::class, $this->app->make('session')->driver()->getHandler());
    }

    public function testWhatARequestPutsTheNextOneHas(): void
    {
        $id = $this->serve(null, static fn (Store $session) => $session->put('name', 'Anne'));
        $this->serve($id, static function (Store $session) use ($id): void {
            self::assertSame($id, $session->getId());
            self::assertSame('Anne', $session->get('name'));
        });
        self::assertFalse($this->isLocked($id));
    }

    public function testTheLockIsHeldFromStartToSave(): void
    {
        $id = $this->serve(null, static fn () => null);
        $this->serve($id, fn () => self::assertTrue($this->isLocked($id)));
        self::assertFalse($this->isLocked($id));
    }

    public function testTwentyRequestsAtOnceKeepTwentyWithoutABlockOnTheRoute(): void
    {
        $id = $this->serve(null, static fn (Store $session) => $session->put('n', 0));
        $children = [];
        for ($i = 0; $i < 20; $i++) {
            $children[] = Child::fork(fn () => $this->serve($id, static fn (Store $session) => $session->increment('n')));
        }
        foreach ($children as $child) {
            self::assertSame($id, $child->tells());
            $child->await();
        }
        $this->serve($id, static fn (Store $session) => self::assertSame(20, $session->get('n')));
    }

    public function testFlashedDataLivesForOneRequest(): void
    {
        $id = $this->serve(null, static fn (Store $session) => $session->flash('status', 'saved'));
        $this->serve($id, static fn (Store $session) => self::assertSame('saved', $session->get('status')));
        $this->serve($id, static fn (Store $session) => self::assertNull($session->get('status')));
    }

    public function testFlushEmptiesTheSessionAndKeepsItsId(): void
    {
        $id = $this->serve(null, static fn (Store $session) => $session->put('name', 'Anne'));
        self::assertSame($id, $this->serve($id, static fn (Store $session) => $session->flush()));
        $this->serve($id, static fn (Store $session) => self::assertNull($session->get('name')));
    }

    public function testInvalidateDestroysTheOldSession(): void
    {
        $id = $this->serve(null, static fn (Store $session) => $session->put('name', 'Anne'));
        $new = $this->serve($id, function (Store $session) use ($id): void {
            $session->invalidate();
            self::assertFalse($this->isLocked($id));
        });
        self::assertNotSame($id, $new);
        self::assertFalse($this->client()->sessionExists($id, $this->prefix));
        self::assertTrue($this->client()->sessionExists($new, $this->prefix));
        $this->serve($new, static fn (Store $session) => self::assertNull($session->get('name')));
    }

    public function testRegenerateKeepsTheDataAndGivesTheOldIdBackAtOnce(): void
    {
        $id = $this->serve(null, static fn (Store $session) => $session->put('name', 'Anne'));
        $new = $this->serve($id, function (Store $session) use ($id): void {
            $session->regenerate();
            self::assertFalse($this->isLocked($id));
        });
        self::assertNotSame($id, $new);
        self::assertTrue($this->client()->sessionExists($id, $this->prefix));
        $this->serve($new, static fn (Store $session) => self::assertSame('Anne', $session->get('name')));
    }

    public function testRegenerateWithDestroyAsALogInDoes(): void
    {
        $id = $this->serve(null, static fn (Store $session) => $session->put('name', 'Anne'));
        $new = $this->serve($id, static fn (Store $session) => $session->migrate(true));
        self::assertFalse($this->client()->sessionExists($id, $this->prefix));
        $this->serve($new, static fn (Store $session) => self::assertSame('Anne', $session->get('name')));
        self::assertSame([], $this->log->lines);
    }

    public function testAnOldRequestDoesNotBringALoggedOutUserBack(): void
    {
        $id = $this->serve(null, static fn (Store $session) => $session->put('user', 'Anne'));
        $this->serve($id, function (Store $session) use ($id): void {
            // another request of the same session, which was let in by force, logs out
            $this->client()->destroySession($id, '', $this->prefix);
            $session->put('seen', true);
        });
        self::assertFalse($this->client()->sessionExists($id, $this->prefix));
        self::assertStringContainsString('"reason":"destroyed"', $this->log->lines[0]);
    }

    public function testAnExceptionThatNobodyTurnsIntoAResponseGivesTheLockBackWhenTheApplicationTerminates(): void
    {
        $id = $this->serve(null, static fn (Store $session) => $session->put('n', 1));
        $app = $this->application();
        try {
            $this->handle($app, $this->request($id), static function (Store $session): void {
                $session->put('n', 2);
                throw new \DomainException();
            });
            self::fail('the exception was swallowed');
        } catch (\DomainException) {
            self::assertTrue($this->isLocked($id));
        }
        $app->terminate();
        self::assertFalse($this->isLocked($id));
        $this->serve($id, static fn (Store $session) => self::assertSame(1, $session->get('n')));
    }

    public function testARequestThatDoesNotStartItsSessionTakesNoLock(): void
    {
        $id = $this->serve(null, static fn () => null);
        $app = $this->application();
        $app->make('session')->driver()->setId($id);
        self::assertFalse($this->isLocked($id));
        $app->terminate();
    }

    public function testOneWorkerServesManyRequests(): void
    {
        $id = $this->serve(null, static fn (Store $session) => $session->put('n', 0));
        $app = $this->application();
        foreach (range(1, 3) as $n) {
            $this->handle($app, $this->request($id), static function (Store $session) use ($n): void {
                self::assertSame($n - 1, $session->get('n'));
                $session->put('n', $n);
            });
            $app->terminate();
            $app->make('session')->driver()->flush();
        }
        $this->serve($id, static fn (Store $session) => self::assertSame(3, $session->get('n')));
    }

    public function testAnEarlySaveLetsTheNextRequestIn(): void
    {
        $id = $this->serve(null, static fn (Store $session) => $session->put('n', 1));
        $this->serve($id, function (Store $session) use ($id): void {
            $session->put('n', 2);
            $session->save();
            self::assertFalse($this->isLocked($id));
            $this->serve($id, static fn (Store $other) => self::assertSame(2, $other->get('n')));
        });
        self::assertSame([], $this->log->lines);
    }

    public function testASaveOfATerminatingCallbackNeverOverwritesTheNextRequest(): void
    {
        $id = $this->serve(null, static fn (Store $session) => $session->put('n', 1));
        $app = $this->application();
        $app->terminating(function () use ($app, $id): void {
            $this->serve($id, static fn (Store $session) => $session->put('n', 3));
            $session = $app->make('session')->driver();
            $session->put('n', 'stale');
            $session->save();
        });
        $this->handle($app, $this->request($id), static fn (Store $session) => $session->put('n', 2));
        $app->terminate();
        self::assertStringContainsString('"reason":"superseded"', $this->log->lines[0]);
        $this->serve($id, static fn (Store $session) => self::assertSame(3, $session->get('n')));
    }

    public function testARouteThatOnlyReadsWaitsForNobodyAndSavesNothing(): void
    {
        $id = $this->serve(null, static fn (Store $session) => $session->put('n', 1));
        $holder = $this->handler();
        $holder->read($id);
        $request = $this->request($id, (new Route(['GET'], '/poll', static fn () => null))->readOnlySession());
        $this->handle($this->application(), $request, static function (Store $session): void {
            self::assertSame(1, $session->get('n'));
            $session->put('n', 2);
        });
        $holder->end();
        $this->serve($id, static fn (Store $session) => self::assertSame(1, $session->get('n')));
        self::assertSame([], $this->log->lines);
    }

    public function testPathsThatOnlyReadAreConfigured(): void
    {
        $id = $this->serve(null, static fn (Store $session) => $session->put('n', 1));
        $app = $this->application(['coatcheck.session' => ['prefix' => $this->prefix, 'read_only' => ['poll/*']]]);
        $this->handle($app, $this->request($id, null, '/poll/news'), fn () => self::assertFalse($this->isLocked($id)));
        $this->handle($app, $this->request($id, null, '/other'), fn () => self::assertTrue($this->isLocked($id)));
    }

    public function testAReadOnlyRequestMakesNoSession(): void
    {
        $app = $this->application(['coatcheck.session' => ['prefix' => $this->prefix, 'read_only' => ['*']]]);
        $id = $this->handle($app, $this->request(null), static fn (Store $session) => $session->put('n', 1));
        self::assertFalse($this->client()->sessionExists($id, $this->prefix));
    }

    public function testOthersSeeTheRouteAndNotTheAddress(): void
    {
        $id = $this->serve(null, static fn () => null);
        $route = new Route(['GET'], '/reset/{secret}', static fn () => null);
        $this->handle($this->application(), $this->request($id, $route, '/reset/s3cret'), function () use ($id): void {
            self::assertSame('GET reset/{secret}', $this->lockOf($id)['holders'][0]['script']);
        });
    }

    public function testLaravelsOwnBlockWorksBesideIt(): void
    {
        $id = $this->serve(null, static fn (Store $session) => $session->put('n', 1));
        $route = (new Route(['GET'], '/blocked', static fn () => null))->block(10, 1);
        $this->handle($this->application(), $this->request($id, $route), function () use ($id): void {
            self::assertTrue($this->cache()->lock("session:$id", 10)->isLocked());
        });
        self::assertFalse($this->cache()->lock("session:$id", 10)->isLocked());
        $this->cache()->lock("session:$id", 10)->get();
        $this->expectException(LockTimeoutException::class);
        $this->handle($this->application(), $this->request($id, $route), static fn () => null);
    }

    public function testAnEncryptedSession(): void
    {
        $config = ['session.encrypt' => true];
        $encrypter = new Encrypter(str_repeat('k', 16), 'AES-128-CBC');
        $serve = function (?string $id, callable $do) use ($config, $encrypter): string {
            $app = $this->application($config);
            $app->instance('encrypter', $encrypter);
            return $this->handle($app, $this->request($id), $do);
        };
        $id = $serve(null, static fn (Store $session) => $session->put('name', 'Anne'));
        $serve($id, static fn (Store $session) => self::assertSame('Anne', $session->get('name')));
        self::assertStringNotContainsString('Anne', $this->client()->openSession($id, prefix: $this->prefix)->data);
    }

    public function testOrdinaryRequestsKeepTheLogQuiet(): void
    {
        $id = $this->serve(null, static fn (Store $session) => $session->put('name', 'Anne'));
        $this->serve($id, static fn () => null);
        self::assertSame([], $this->log->lines);
    }

    /** One request with an application of its own, as php-fpm serves it. @return string the session's id after it */
    private function serve(?string $id, callable $do): string
    {
        $app = $this->application();
        $after = $this->handle($app, $this->request($id), $do);
        $app->terminate();
        return $after;
    }

    private function handle(Application $app, Request $request, callable $do): string
    {
        $app->instance('request', $request);
        $app->make(StartSession::class)->handle($request, static function (Request $request) use ($do): Response {
            $do($request->session());
            return new Response('done');
        });
        return $request->session()->getId();
    }

    private function request(?string $id, ?Route $route = null, string $path = '/page'): Request
    {
        $request = Request::create("http://localhost$path", 'POST', [], $id === null ? [] : ['laravel_session' => $id]);
        if ($route !== null) {
            $request->setMethod('GET');
            $request->setRouteResolver(static fn () => $route);
        }
        return $request;
    }

    private function isLocked(string $id): bool
    {
        return $this->lockOf($id) !== null;
    }

    /** @return array<string, mixed>|null */
    private function lockOf(string $id): ?array
    {
        foreach ($this->client()->heldLocks() as $lock) {
            if ($lock['kind'] === 'session' && str_starts_with($lock['name'], substr($id, 0, 6))) {
                return $lock;
            }
        }
        return null;
    }
}
