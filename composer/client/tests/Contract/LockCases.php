<?php

declare(strict_types=1);

namespace Coatcheck\Client\Tests\Contract;

use Coatcheck\Client\Exception\BusyException;
use Coatcheck\Client\Exception\RefusedException;
use Coatcheck\Client\Token;
use Coatcheck\Tests\Packages\Child;
use Coatcheck\Tests\Packages\Daemon;

trait LockCases
{
    public function testOneHolder(): void
    {
        $name = self::fresh('lock');
        $mine = $this->client->lock($name);
        $theirs = self::other()->lock($name);
        self::assertTrue($mine->acquire());
        self::assertFalse($theirs->acquire());
        self::assertSame(getmypid(), $theirs->busy()->holder()['pid']);
        self::assertTrue($mine->isAcquired());
        self::assertFalse($theirs->isAcquired());
        self::assertTrue($theirs->isHeld());
        self::assertTrue($mine->release());
        self::assertFalse($mine->release());
        self::assertTrue($theirs->acquire());
        self::assertNull($theirs->busy());
        self::assertGreaterThan(0, $theirs->fence());
    }

    public function testFencesGrowAndTokensAreNeverReused(): void
    {
        $lock = $this->client->lock(self::fresh('lock'));
        $lock->acquire();
        [$fence, $token] = [$lock->fence(), $lock->token()];
        $lock->release();
        $lock->acquire();
        self::assertGreaterThan($fence, $lock->fence());
        self::assertNotSame($token, $lock->token());
        self::assertMatchesRegularExpression('/^[0-9a-f]{32}$/', $token);
    }

    public function testOnlyTheTokenReleases(): void
    {
        $name = self::fresh('lock');
        $first = $this->client->detachedLock($name, 0.05);
        self::assertTrue($first->acquire());
        $second = self::other()->detachedLock($name, 30);
        self::assertTrue($second->acquire(5));
        self::assertFalse($first->release());
        self::assertFalse($this->client->detachedLock($name, 30)->acquire());
        self::assertTrue($second->release());
    }

    public function testTheWaitIsTheDaemons(): void
    {
        $name = self::fresh('lock');
        $child = Child::fork(function (\Closure $tell) use ($name): string {
            $lock = self::other()->lock($name);
            $tell($lock->acquire());
            usleep(80_000); // holds it a while
            $lock->release();
            return 'released';
        });
        self::assertTrue($child->tells());
        $lock = $this->client->lock($name);
        self::assertTrue($lock->acquire(10));
        self::assertSame('released', $child->tells());
        $child->await();
    }

    public function testAWaitInVainSaysHowLong(): void
    {
        $name = self::fresh('lock');
        $holder = self::other()->lock($name);
        $holder->acquire();
        $lock = $this->client->lock($name);
        self::assertFalse($lock->acquire(0.1));
        self::assertSame('wait_over', $lock->busy()->reason());
        self::assertGreaterThanOrEqual(0.1, $lock->busy()->waitedSeconds());
        self::assertTrue($holder->release());
    }

    public function testADeadHolderFreesAtOnce(): void
    {
        $name = self::fresh('lock');
        $child = Child::fork(function (\Closure $tell) use ($name): void {
            $lock = self::other()->lock($name);
            $tell($lock->acquire());
            sleep(60); // until it is killed
        });
        self::assertTrue($child->tells());
        self::assertFalse($this->client->lock($name)->acquire());
        $child->kill();
        $began = microtime(true);
        self::assertTrue($this->client->lock($name)->acquire(10));
        self::assertLessThan(2.0, microtime(true) - $began);
    }

    public function testADetachedLockOutlivesItsProcessAndIsReleasedByAnother(): void
    {
        $name = self::fresh('lock');
        $child = Child::fork(static function () use ($name): string {
            $lock = self::other()->detachedLock($name, 60);
            return $lock->acquire() ? (string) $lock->token() : '';
        });
        $token = $child->tells();
        $child->await();
        self::assertFalse($this->client->detachedLock($name, 60)->acquire());
        $restored = $this->client->restoreLock($name, $token, 60);
        self::assertTrue($restored->isAcquired());
        self::assertTrue($restored->renew());
        self::assertTrue($restored->release());
        self::assertFalse($restored->isAcquired());
        self::assertFalse($restored->isHeld());
    }

    public function testADetachedLockGoesNotWithItsObject(): void
    {
        $name = self::fresh('lock');
        $this->client->detachedLock($name, 60)->acquire();
        self::assertNotNull($this->client->lockInfo($name));
        self::assertTrue($this->client->forceReleaseLock($name));
    }

    public function testABoundLockGoesWithItsObject(): void
    {
        $name = self::fresh('lock');
        $this->client->lock($name)->acquire();
        self::assertNull($this->client->lockInfo($name));
    }

    public function testRenewingALostLockSaysSo(): void
    {
        $lock = $this->client->detachedLock(self::fresh('lock'), 0.03);
        self::assertFalse($lock->renew());
        $lock->acquire();
        Daemon::eventually('the lease is over', fn () => !$lock->isAcquired());
        self::assertFalse($lock->renew(10));
        self::assertTrue($lock->acquire());
        self::assertTrue($lock->renew(60));
        $held = array_column($this->client->heldLocks(), null, 'name')[$lock->name()];
        self::assertGreaterThan(50_000, $held['holders'][0]['lease_left_ms']);
        self::assertTrue($lock->release());
    }

    public function testALockWithoutExpiry(): void
    {
        $lock = $this->client->detachedLock(self::fresh('lock'), null);
        self::assertTrue($lock->acquire());
        self::assertTrue($lock->isAcquired());
        self::assertTrue($lock->release());
    }

    public function testTheSameObjectMayAcquireAgain(): void
    {
        $lock = $this->client->lock(self::fresh('lock'));
        self::assertTrue($lock->acquire());
        $token = $lock->token();
        self::assertTrue($lock->acquire());
        self::assertSame($token, $lock->token());
        self::assertTrue($lock->release());
        self::assertFalse($lock->isHeld());
    }

    public function testReadersShareAndAWriterWaits(): void
    {
        $name = self::fresh('lock');
        $one = $this->client->lock($name, shared: true);
        $two = self::other()->lock($name, shared: true);
        self::assertTrue($one->acquire() && $two->acquire());
        self::assertFalse(self::other()->lock($name)->acquire());
        self::assertFalse($one->promote());
        self::assertTrue($one->isAcquired());
        self::assertTrue($two->release());
        self::assertTrue($one->promote());
        self::assertFalse($one->isShared());
        self::assertFalse($two->acquire());
        self::assertTrue($one->demote());
        self::assertTrue($two->acquire());
        self::assertTrue($one->release() && $two->release());
    }

    public function testLocksOfABucketAreItsOwn(): void
    {
        $name = self::fresh('lock');
        $inside = $this->client->lock($name, bucket: 'shop');
        $outside = $this->client->lock($name);
        self::assertTrue($inside->acquire() && $outside->acquire());
        self::assertSame([$name], array_column($this->client->lockList($name, bucket: 'shop'), 'name'));
        self::assertContains($name, array_column($this->client->heldLocks(), 'name'));
    }

    public function testLocksByTokenAlone(): void
    {
        $name = self::fresh('lock');
        $token = Token::random();
        $fence = $this->client->acquireLock($name, $token, 60)['fence'];
        self::assertSame($fence, $this->client->acquireLock($name, $token, 60)['fence']);
        self::assertSame($fence, $this->client->renewLock($name, $token, 60));
        try {
            $this->client->acquireLock($name, Token::random(), 60);
            self::fail('two holders');
        } catch (BusyException $busy) {
            self::assertSame($fence, $busy->holder()['fence']);
        }
        self::assertTrue($this->client->releaseLock($name, $token));
        $this->expectException(RefusedException::class);
        $this->client->renewLock($name, $token, 60);
    }

    public function testALockIsNotSerialisedOrCopied(): void
    {
        $this->expectException(\LogicException::class);
        serialize($this->client->lock(self::fresh('lock')));
    }
}
