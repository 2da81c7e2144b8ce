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

    public function testAFlexibleValueIsRefreshedOnceUnderItsLock(): void
    {
        if (!method_exists(Cache::class, 'flexible')) {
            self::assertFalse(method_exists($this->cache(), 'withoutOverlapping'), 'both came with later Laravels');
            return;
        }
        $made = 0;
        $make = function () use (&$made) {
            return ++$made;
        };
        self::assertSame(1, $this->cache()->flexible('k', [60, 120], $make));
        self::assertSame(1, $this->cache()->flexible('k', [60, 120], $make));
        self::assertSame(1, $this->cache()->tags('t')->flexible('tagged', [60, 120], static fn () => 1));
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
