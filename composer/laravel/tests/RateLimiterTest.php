<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Tests;

use Coatcheck\Client\Client;
use Coatcheck\Laravel\Cache\CoatcheckStore;
use Coatcheck\Laravel\RateLimiting\AtomicRateLimiter;
use Coatcheck\Laravel\Tests\Support\CountingTransport;
use Coatcheck\Laravel\Tests\Support\LaravelTestCase;
use Coatcheck\Tests\Packages\Child;
use Illuminate\Cache\RateLimiter;

/**
 * The rate limiter that the container gives.
 */
final class RateLimiterTest extends LaravelTestCase
{
    public function testTheLimiterIsOursWhereItsCountersAre(): void
    {
        self::assertInstanceOf(AtomicRateLimiter::class, $this->limiter());
        $other = $this->application(['cache.limiter' => 'memory', 'cache.stores.memory' => ['driver' => 'array']]);
        self::assertSame(RateLimiter::class, $other->make(RateLimiter::class)::class);
    }

    public function testLimitersThatWereNamedBeforeAreKept(): void
    {
        $plain = new RateLimiter($this->cache());
        $plain->for('uploads', static fn () => 'limit');
        self::assertSame('limit', AtomicRateLimiter::insteadOf($plain)->limiter('uploads')());
    }

    public function testHitsAreCountedUntilThereAreTooMany(): void
    {
        $limiter = $this->limiter();
        self::assertSame(0, $limiter->attempts('k'));
        self::assertSame(1, $limiter->hit('k', 60));
        self::assertFalse($limiter->tooManyAttempts('k', 2));
        self::assertSame(2, $limiter->hit('k', 60));
        self::assertTrue($limiter->tooManyAttempts('k', 2));
        self::assertSame(0, $limiter->remaining('k', 2));
        self::assertSame(0, $limiter->retriesLeft('k', 2));
        self::assertEqualsWithDelta(60, $limiter->availableIn('k'), 2);
    }

    public function testClearForgetsTheHits(): void
    {
        $limiter = $this->limiter();
        $limiter->hit('k', 60);
        $limiter->clear('k');
        self::assertSame(0, $limiter->attempts('k'));
        self::assertSame(0, $limiter->availableIn('k'));
        self::assertSame([], iterator_to_array($this->values()->keys(), false));
    }

    public function testAttemptRunsUntilItIsLimited(): void
    {
        $limiter = $this->limiter();
        self::assertSame('ran', $limiter->attempt('k', 1, static fn () => 'ran'));
        self::assertFalse($limiter->attempt('k', 1, static fn () => 'ran'));
    }

    public function testManyHitsAtOnceAndBack(): void
    {
        $limiter = $this->limiter();
        self::assertSame(5, $limiter->increment('k', 60, 5));
        self::assertSame(3, $limiter->increment('k', 60, -2));
        self::assertSame(3, $limiter->attempts('k'));
    }

    public function testTheDecayMayBeADate(): void
    {
        $this->limiter()->hit('k', now()->addMinutes(2));
        self::assertEqualsWithDelta(120_000, $this->values()->ttlMs('k'), 5_000);
        self::assertEqualsWithDelta(120, $this->limiter()->availableIn('k'), 3);
    }

    public function testCounterAndTimerGetTheirTimeInOneRoundTripAndKeepIt(): void
    {
        $transport = new CountingTransport($this->client()->transport);
        $store = new CoatcheckStore(new Client($transport), $this->prefix);
        $limiter = new AtomicRateLimiter($this->app->make('cache')->repository($store), $store);
        $limiter->hit('k', 60);
        self::assertSame(1, $transport->roundTrips);
        $limiter->hit('k', 3600);
        self::assertSame(2, $transport->roundTrips);
        self::assertEqualsWithDelta(60_000, $this->values()->ttlMs('k'), 5_000);
        self::assertEqualsWithDelta(60_000, $this->values()->ttlMs('k:timer'), 5_000);
    }

    /** One that expires between two steps must not come back for ever. */
    public function testACounterThatIsHammeredOverItsEndStillEnds(): void
    {
        $children = [];
        for ($i = 0; $i < 4; $i++) {
            $children[] = Child::fork(function (): array {
                $limiter = $this->limiter();
                $values = $this->values();
                $withoutEnd = $hits = $restarts = 0;
                for ($until = microtime(true) + 3; microtime(true) < $until;) {
                    $restarts += $limiter->hit('k', 1) === 1 ? 1 : 0;
                    $hits++;
                    $withoutEnd += $values->ttlMs('k') === -1 ? 1 : 0;
                    usleep(1_000);
                }
                return [$hits, $restarts, $withoutEnd];
            });
        }
        $sums = [0, 0, 0];
        foreach ($children as $child) {
            foreach ($child->tells() as $i => $n) {
                $sums[$i] += $n;
            }
            $child->await();
        }
        [$hits, $restarts, $withoutEnd] = $sums;
        self::assertGreaterThan(100, $hits);
        self::assertSame(0, $withoutEnd);
        self::assertGreaterThanOrEqual(3, $restarts, 'each second begins a counter');
        self::assertLessThanOrEqual(4, $restarts, 'only one process begins it');
        self::eventually('the counter has ended', fn () => $this->limiter()->attempts('k') === 0, 3.0);
    }

    public function testNoHitOfManyProcessesIsLost(): void
    {
        $children = [];
        for ($i = 0; $i < 10; $i++) {
            $children[] = Child::fork(function (): void {
                for ($n = 0; $n < 20; $n++) {
                    $this->limiter()->hit('k', 60);
                }
            });
        }
        foreach ($children as $child) {
            self::assertNull($child->tells());
            $child->await();
        }
        self::assertSame(200, $this->limiter()->attempts('k'));
    }

    public function testLaravelsOwnLimiterWorksOnTheStoreToo(): void
    {
        $limiter = new RateLimiter($this->cache());
        self::assertSame(1, $limiter->hit('k', 60));
        self::assertSame(2, $limiter->hit('k', 60));
        self::assertTrue($limiter->tooManyAttempts('k', 2));
        self::assertEqualsWithDelta(60_000, $this->values()->ttlMs('k'), 5_000);
    }

    private function limiter(): RateLimiter
    {
        return $this->app->make(RateLimiter::class);
    }
}
