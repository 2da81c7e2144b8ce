<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Tests;

use Coatcheck\Laravel\Tests\Support\LaravelTestCase;
use Coatcheck\Laravel\Tests\Support\UniqueJob;
use Coatcheck\Tests\Packages\Child;
use Illuminate\Bus\UniqueLock;
use Illuminate\Cache\Repository as Cache;
use Illuminate\Console\Scheduling\CacheEventMutex;
use Illuminate\Console\Scheduling\CacheSchedulingMutex;
use Illuminate\Console\Scheduling\Event;
use Illuminate\Queue\Middleware\WithoutOverlapping;
use Illuminate\Support\Defer\DeferredCallbackCollection;

/**
 * What Laravel builds on locks: unique jobs, jobs that do not overlap, the scheduler.
 */
final class FrameworkLocksTest extends LaravelTestCase
{
    public function testAUniqueJobsLockOutlivesTheRequestAndIsReleasedByTheWorker(): void
    {
        $request = Child::fork(fn () => (new UniqueLock($this->cache()))->acquire(new UniqueJob('order-1')));
        self::assertTrue($request->tells());
        $request->await(); // the web request is over, and its process is gone

        self::assertFalse((new UniqueLock($this->cache()))->acquire(new UniqueJob('order-1')));
        self::assertTrue((new UniqueLock($this->cache()))->acquire(new UniqueJob('order-2')));

        $worker = Child::fork(fn () => $this->releaseAsTheWorkerDoes(new UniqueJob('order-1')));
        $worker->tells();
        $worker->await();
        self::assertTrue((new UniqueLock($this->cache()))->acquire(new UniqueJob('order-1')));
    }

    public function testAJobDoesNotOverlapItself(): void
    {
        $this->app->instance(\Illuminate\Contracts\Cache\Repository::class, $this->cache());
        $ran = [];
        $job = new UniqueJob('order-1');
        (new WithoutOverlapping('order-1'))->handle($job, function ($job) use (&$ran): void {
            $ran[] = 'first';
            (new WithoutOverlapping('order-1'))->handle($job, function () use (&$ran): void {
                $ran[] = 'overlapping';
            });
        });
        (new WithoutOverlapping('order-1'))->handle($job, function () use (&$ran): void {
            $ran[] = 'second';
        });
        self::assertSame(['first', 'second'], $ran);
        self::assertSame(1, $job->releases);
    }

    public function testAScheduledEventRunsOnceAtATime(): void
    {
        $mutex = new CacheEventMutex($this->app->make('cache'));
        $event = new Event($mutex, 'php artisan report');
        self::assertFalse($mutex->exists($event));
        $other = Child::fork(fn () => (bool) (new CacheEventMutex($this->app->make('cache')))->create($event));
        self::assertTrue($other->tells());
        $other->await();
        self::assertFalse((bool) $mutex->create($event));
        self::assertTrue($mutex->exists($event));
        $mutex->forget($event);
        self::assertFalse($mutex->exists($event));
        self::assertTrue((bool) $mutex->create($event));
    }

    public function testOneOfManyServersRunsAScheduledEvent(): void
    {
        $event = new Event(new CacheEventMutex($this->app->make('cache')), 'php artisan report');
        $time = now();
        $children = [];
        for ($i = 0; $i < 20; $i++) {
            $children[] = Child::fork(
                fn () => (new CacheSchedulingMutex($this->app->make('cache')))->create($event, $time)
            );
        }
        $answers = array_map(static fn (Child $child) => $child->tells(), $children);
        array_map(static fn (Child $child) => $child->await(), $children);
        self::assertCount(1, array_keys($answers, true, true), json_encode($answers));
    }

    public function testAFlexibleValueIsRefreshedAfterTheResponse(): void
    {
        $this->needs('flexible', 'Laravel 11');
        $this->app->instance(DeferredCallbackCollection::class, $deferred = new DeferredCallbackCollection());
        foreach ([$this->cache(), $this->cache()->tags('t')] as $cache) {
            $made = 0;
            $make = static function () use (&$made): int {
                return ++$made;
            };
            self::assertSame(1, $cache->flexible('k', [60, 120], $make));
            self::assertSame(1, $cache->flexible('k', [0, 120], $make), 'stale, and answered at once');
            $deferred->invoke();
            self::assertSame(2, $cache->flexible('k', [60, 120], $make));
        }
    }

    public function testAFunnelLetsSoManyIn(): void
    {
        $this->needs('funnel', 'Laravel 12');
        $in = fn (callable $do) => $this->cache()->funnel('reports')->limit(2)->releaseAfter(60)->block(0)->then(
            $do,
            static fn () => 'full',
        );
        self::assertSame('full', $in(static fn () => $in(static fn () => $in(static fn () => 'a third'))));
        self::assertSame('again', $in(static fn () => 'again'));
    }

    public function testWithoutOverlappingRunsUnderTheLock(): void
    {
        $this->needs('withoutOverlapping', 'Laravel 12');
        self::assertSame('ran', $this->cache()->withoutOverlapping('report', function () {
            self::assertTrue($this->cache()->lock('report')->isLocked());
            return 'ran';
        }));
        self::assertFalse($this->cache()->lock('report')->isLocked());
    }

    private function needs(string $method, string $version): void
    {
        if (!method_exists(Cache::class, $method)) {
            self::markTestSkipped("Cache::$method() came with $version");
        }
    }

    /** As CallQueuedHandler: by force, because the worker does not know the owner. */
    private function releaseAsTheWorkerDoes(UniqueJob $job): void
    {
        $lock = new UniqueLock($this->cache());
        method_exists($lock, 'release')
            ? $lock->release($job)
            : $this->cache()->lock('laravel_unique_job:' . $job::class . $job->uniqueId)->forceRelease();
    }
}
