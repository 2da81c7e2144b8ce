<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Tests;

use Coatcheck\Client\Exception\TimeoutException;
use Coatcheck\Laravel\Cache\CoatcheckLock;
use Coatcheck\Laravel\Cache\CoatcheckStore;
use Coatcheck\Laravel\Tests\Support\LaravelTestCase;
use Coatcheck\Tests\Packages\Child;
use Coatcheck\Tests\Packages\Daemon;
use Illuminate\Contracts\Cache\LockTimeoutException;

/**
 * The lock provider, as Laravel's own tests ask it of Redis, and what it promises beyond.
 */
final class LockTest extends LaravelTestCase
{
    public function testALockIsTakenOnceAndReleased(): void
    {
        self::assertTrue($this->lock()->get());
        self::assertFalse($this->lock()->get());
        $this->lock()->forceRelease();
        self::assertTrue($this->lock()->get());
    }

    public function testTheSameObjectDoesNotTakeItTwice(): void
    {
        $lock = $this->lock();
        self::assertTrue($lock->get());
        self::assertFalse($lock->get());
        self::assertTrue($lock->release());
        self::assertTrue($lock->get());
    }

    public function testTheSameOwnerDoesNotTakeItTwice(): void
    {
        self::assertTrue($this->lock(60, 'owner')->get());
        self::assertFalse($this->lock(60, 'owner')->get());
        self::assertFalse($this->cache()->restoreLock('foo', 'owner')->get());
        self::assertTrue($this->lock(60, 'owner')->release());
        self::assertTrue($this->lock(60, 'owner')->get());
    }

    public function testOnlyTheOwnerReleases(): void
    {
        $first = $this->lock();
        $first->get();
        $second = $this->lock();
        self::assertFalse($second->release());
        self::assertTrue($first->isOwnedByCurrentProcess());
        self::assertTrue($first->release());
        self::assertFalse($first->release());
    }

    public function testAnExpiredLockIsNotReleasedFromItsNextHolder(): void
    {
        $first = $this->lock(0.05);
        $first->get();
        $second = $this->lock();
        self::assertTrue($second->block(5));
        self::assertFalse($first->release());
        self::assertFalse($this->lock()->get());
        self::assertTrue($second->isOwnedByCurrentProcess());
    }

    public function testALockEndsWithItsTime(): void
    {
        $lock = $this->lock(0.05);
        $lock->get();
        self::eventually('the lock is free', fn () => !$lock->isLocked(), 2.0);
        self::assertFalse($lock->release());
        self::assertTrue($this->lock()->get());
    }

    public function testALockWithoutTimeStays(): void
    {
        $lock = $this->lock(0);
        $lock->get();
        self::assertNull($this->leaseLeftMs());
        self::assertTrue($lock->isLocked());
    }

    public function testTheCallbackRunsUnderTheLock(): void
    {
        $result = $this->lock()->get(function () {
            self::assertFalse($this->lock()->get());
            return 'result';
        });
        self::assertSame('result', $result);
        self::assertFalse($this->lock()->isLocked());
    }

    public function testAnExceptionInTheCallbackReleases(): void
    {
        foreach (['get', 'block'] as $method) {
            try {
                $throw = static fn () => throw new \DomainException();
                $method === 'get' ? $this->lock()->get($throw) : $this->lock()->block(1, $throw);
                self::fail('the exception was swallowed');
            } catch (\DomainException) {
                self::assertFalse($this->lock()->isLocked());
            }
        }
    }

    public function testBlockIsTrueOrTheCallbacksResult(): void
    {
        $lock = $this->lock();
        self::assertTrue($lock->block(1));
        $lock->release();
        self::assertSame('result', $this->lock()->block(1, static fn () => 'result'));
        self::assertFalse($lock->isLocked());
    }

    public function testBlockGivesUpInTimeAndRunsNothing(): void
    {
        $this->lock()->get();
        $from = hrtime(true);
        try {
            $this->lock()->block(0.3, static fn () => self::fail('it ran without the lock'));
            self::fail('the lock was granted twice');
        } catch (LockTimeoutException) {
            self::assertEqualsWithDelta(0.3, (hrtime(true) - $from) / 1e9, 0.25);
        }
    }

    public function testBlockWithoutTimeAsksOnce(): void
    {
        self::assertTrue($this->lock()->block(0));
        $this->expectException(LockTimeoutException::class);
        $this->lock()->block(0);
    }

    public function testBlockWaitsInTheDaemonAndIsWokenByTheRelease(): void
    {
        $held = $this->lock();
        $held->get();
        $child = Child::fork(function (callable $tell): float {
            $tell('waits');
            $this->lock()->block(10);
            return microtime(true);
        });
        $child->tells();
        self::eventually('the daemon has a waiter', fn () => $this->waiters() === 1);
        $released = microtime(true);
        $held->release();
        self::assertLessThan(0.1, $child->tells() - $released, 'Laravel would have asked again after 0.25 s');
        $child->await();
    }

    public function testBlockCostsOneRoundTrip(): void
    {
        $transport = new Support\CountingTransport($this->client()->transport);
        $store = new CoatcheckStore(new \Coatcheck\Client\Client($transport), $this->prefix);
        $this->lock(0.2)->get();
        self::assertTrue($store->lock('foo', 60)->block(5));
        self::assertSame(1, $transport->roundTrips);
        $store->lock('another', 60, 'an owner of its own')->get();
        self::assertSame(5, $transport->roundTrips);
    }

    public function testAnOwnerThatOthersKnowWaitsForItselfToo(): void
    {
        $this->lock(0.2, 'shared owner')->get();
        self::assertTrue($this->lock(60, 'shared owner')->block(5));
        self::assertFalse($this->lock(60, 'shared owner')->get());
        $this->expectException(LockTimeoutException::class);
        $this->lock(60, 'shared owner')->block(0.1);
    }

    public function testBlockWaitsOnWhenTheDaemonsQueueIsFull(): void
    {
        $daemon = Daemon::start(['COATCHECK_LOCK_MAX_WAITERS' => '1']);
        $store = fn () => new CoatcheckStore(\Coatcheck\Client\Client::connect($daemon->socket, ['transport' => 'stream']), 'p');
        $held = $store()->lock('foo', 60);
        $held->get();
        $first = Child::fork(fn () => $store()->lock('foo', 60)->block(10, static fn () => 'first'));
        self::eventually('the first waits', fn () => $store()->client()->lockInfo('foo', '', 'laravel:p')['waiters'] === 1);
        $second = Child::fork(function (callable $tell) use ($store) {
            $tell('asks');
            return $store()->lock('foo', 60)->betweenBlockedAttemptsSleepFor(5)->block(10, static fn () => 'second');
        });
        $second->tells();
        $held->release();
        self::assertSame('first', $first->tells());
        self::assertSame('second', $second->tells());
        $first->await();
        $second->await();
    }

    public function testARestoredLockIsReleasedByItsOwner(): void
    {
        $lock = $this->lock();
        $lock->get();
        $restored = $this->cache()->restoreLock('foo', $lock->owner());
        self::assertSame($lock->owner(), $restored->owner());
        self::assertTrue($restored->isOwnedByCurrentProcess());
        self::assertTrue($restored->release());
        self::assertFalse($lock->isLocked());
        self::assertFalse($this->cache()->restoreLock('foo', 'another')->release());
    }

    public function testALockOutlivesTheProcessThatTookIt(): void
    {
        $child = Child::fork(function () {
            $lock = $this->lock(0);
            $lock->get();
            return $lock->owner();
        });
        $owner = $child->tells();
        $child->await();
        self::assertTrue($this->lock()->isLocked());
        self::assertTrue($this->cache()->restoreLock('foo', $owner)->release());
        self::assertFalse($this->lock()->isLocked());
    }

    public function testOwnersAreSecretsOfTheirOwn(): void
    {
        $first = $this->lock()->owner();
        self::assertMatchesRegularExpression('/^[0-9a-f]{32}$/', $first);
        self::assertNotSame($first, $this->lock()->owner());
    }

    public function testWhoOwnsIt(): void
    {
        $lock = $this->lock();
        self::assertFalse($lock->isLocked());
        self::assertFalse($lock->isOwnedByCurrentProcess());
        $lock->get();
        self::assertTrue($lock->isLocked());
        self::assertTrue($lock->isOwnedBy($lock->owner()));
        self::assertFalse($lock->isOwnedBy('another'));
        self::assertFalse($lock->isOwnedBy(null));
        self::assertFalse($lock->isOwnedBy(''));
        self::assertTrue($this->lock()->isLocked());
        self::assertFalse($this->lock()->isOwnedByCurrentProcess());
    }

    public function testRefreshBeginsItsTimeAnew(): void
    {
        $lock = $this->lock(5);
        $lock->get();
        self::assertTrue($lock->refresh(60));
        self::assertEqualsWithDelta(60_000, $this->leaseLeftMs(), 5_000);
        self::assertTrue($lock->refresh());
        self::assertEqualsWithDelta(5_000, $this->leaseLeftMs(), 1_000);
        self::assertTrue($lock->refresh(0));
        self::assertNull($this->leaseLeftMs());
    }

    public function testRefreshIsFalseForWhoLostIt(): void
    {
        $lock = $this->lock();
        self::assertFalse($lock->refresh(60));
        $lock->get();
        $lock->forceRelease();
        self::assertFalse($lock->refresh(60));
        $this->lock()->get();
        self::assertFalse($lock->refresh(60));
        self::assertFalse($lock->release());
    }

    public function testOneOfAHundredProcessesGetsIt(): void
    {
        self::assertSame(1, $this->granted(100, fn () => $this->lock(0)->get()));
    }

    public function testOneOfManyProcessesWithTheSameOwnerGetsIt(): void
    {
        self::assertSame(1, $this->granted(40, fn () => $this->lock(0, 'same for all')->get()));
    }

    public function testALockWhoseAnswerWasLostCanBeTakenAgain(): void
    {
        $daemon = Daemon::start();
        $client = \Coatcheck\Client\Client::connect($daemon->socket, ['timeout' => 0.2, 'transport' => 'stream']);
        $lock = (new CoatcheckStore($client, 'p'))->lock('foo', 60);
        $client->ping();
        $daemon->pause();
        try {
            $lock->get();
            self::fail('a daemon that stands still has answered');
        } catch (TimeoutException $failure) {
            self::assertTrue($failure->outcomeIsUnknown());
        }
        $daemon->resume();
        self::assertTrue($lock->get());
        self::assertTrue($lock->release());
    }

    public function testFlushLocksEndsThoseOfThisPrefix(): void
    {
        $other = new CoatcheckStore($this->client(), "other-$this->prefix");
        $theirs = $other->lock('foo', 60);
        $theirs->get();
        $this->cache()->put('k', 'v', 60);
        foreach (range(1, 5) as $i) {
            $this->cache()->lock("lock$i", 60)->get();
        }
        self::assertTrue($this->store()->hasSeparateLockStore());
        self::assertTrue($this->store()->flushLocks());
        self::assertSame([], $this->client()->lockList('', 10, "laravel:$this->prefix"));
        self::assertSame('v', $this->cache()->get('k'));
        self::assertTrue($theirs->isLocked());
    }

    public function testLocksOfTwoPrefixesAreTwo(): void
    {
        self::assertTrue($this->lock()->get());
        self::assertTrue((new CoatcheckStore($this->client(), "other-$this->prefix"))->lock('foo', 60)->get());
    }

    public function testTryingLeavesNothingBehind(): void
    {
        $this->lock(60, 'owner')->get();
        $this->lock(60, 'owner')->get();
        self::assertSame([], $this->client()->lockList('', 10, "laravel:$this->prefix#try"));
    }

    private function lock(int|float $seconds = 60, ?string $owner = null): CoatcheckLock
    {
        return $this->cache()->lock('foo', $seconds, $owner);
    }

    /** In how many of so many processes it was true. */
    private function granted(int $processes, callable $get): int
    {
        $children = [];
        for ($i = 0; $i < $processes; $i++) {
            $children[] = Child::fork($get);
        }
        $answers = array_map(static fn (Child $child) => $child->tells(), $children);
        array_map(static fn (Child $child) => $child->await(), $children);
        self::assertSame([], array_filter($answers, static fn ($answer) => !is_bool($answer)));
        return count(array_filter($answers));
    }

    private function waiters(): int
    {
        return $this->client()->lockInfo('foo', '', "laravel:$this->prefix")['waiters'] ?? 0;
    }

    private function leaseLeftMs(): ?int
    {
        foreach ($this->client()->heldLocks() as $lock) {
            if ($lock['name'] === 'foo' && $lock['bucket'] === "laravel:$this->prefix") {
                return $lock['holders'][0]['lease_left_ms'] ?? null;
            }
        }
        self::fail('the lock is not held');
    }
}
