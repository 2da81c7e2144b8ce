<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Tests\Lock;

use Coatcheck\Client\Client;
use Coatcheck\Symfony\Lock\CoatcheckStore;
use Coatcheck\Tests\Packages\Child;
use Coatcheck\Tests\Packages\Daemon;
use Symfony\Component\Lock\Exception\InvalidTtlException;
use Symfony\Component\Lock\Exception\LockExpiredException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\LockFactory;

final class CoatcheckStoreTest extends LockStoreContract
{
    protected function store(?Client $client = null, ?float $maxWait = null, float $initialTtl = 300.0): CoatcheckStore
    {
        return new CoatcheckStore($client ?? self::client(), $initialTtl, $maxWait);
    }

    public function testALockEndsWithItsTtl(): void
    {
        $store = $this->store();
        $key = new Key($this->name);
        $store->save($key);
        $store->putOffExpiration($key, 0.5);
        self::assertGreaterThan(0.0, $key->getRemainingLifetime());
        self::assertLessThanOrEqual(0.5, $key->getRemainingLifetime());

        Daemon::eventually('the lock ends', static fn () => !$store->exists($key), 2.0);

        self::assertTrue($key->isExpired(), 'the key never thinks that it lasts longer than the daemon does');
        $store->save($next = new Key($this->name));
        $store->delete($key);
        self::assertTrue($store->exists($next), 'the key that has ended releases nothing');
        $store->delete($next);
    }

    public function testPuttingOffKeepsTheLock(): void
    {
        $store = $this->store(initialTtl: 0.5);
        $key = new Key($this->name);
        $store->save($key);
        $key->resetLifetime();
        $store->putOffExpiration($key, 5.0);
        usleep(700_000);

        self::assertTrue($store->exists($key));
        self::assertFalse($key->isExpired());
        $store->delete($key);
    }

    public function testATtlMayBeShortened(): void
    {
        $store = $this->store();
        $key = new Key($this->name);
        $store->save($key);
        $store->putOffExpiration($key, 0.3);

        Daemon::eventually('the lock ends', static fn () => !$store->exists($key), 2.0);
        self::assertTrue($key->isExpired());
    }

    public function testATtlOfAMicrosecondHasEndedAtOnce(): void
    {
        $store = $this->store();
        $key = new Key($this->name);
        $store->save($key);
        try {
            $store->putOffExpiration($key, 0.000_001);
            self::fail('it has not ended');
        } catch (LockExpiredException) {
            self::assertFalse($store->exists($key));
        }

        $this->expectException(LockExpiredException::class);
        $this->store(initialTtl: 0.000_001)->save(new Key($this->name));
    }

    public function testATtlMustBeAboveZero(): void
    {
        $store = $this->store();
        $store->save($key = new Key($this->name));
        foreach ([0.0, -1.0] as $ttl) {
            try {
                $store->putOffExpiration($key, $ttl);
                self::fail("a TTL of $ttl was taken");
            } catch (InvalidTtlException $refused) {
                self::assertStringContainsString('0 seconds', $refused->getMessage());
            }
        }
        self::assertTrue($store->exists($key));
        $store->delete($key);

        $this->expectException(InvalidTtlException::class);
        $this->store(initialTtl: 0.0);
    }

    public function testWaitingCostsNothingOfTheLease(): void
    {
        $holder = $this->holdInAChild(static fn () => usleep(1_000_000));
        $store = $this->store(initialTtl: 2.0);
        $key = new Key($this->name);

        $store->waitAndSave($key);

        self::assertGreaterThan(1.2, $key->getRemainingLifetime());
        self::assertLessThanOrEqual(2.0, $key->getRemainingLifetime());
        self::assertTrue($store->exists($key));
        $holder->await();
        $store->delete($key);
    }

    public function testASerialisedKeyGoesOnInAnotherProcess(): void
    {
        $store = $this->store();
        $key = new Key($this->name);
        $store->save($key);
        $serialised = serialize($key);

        $child = Child::fork(function () use ($serialised): array {
            $store = $this->store();
            $key = unserialize($serialised);
            $held = $store->exists($key);
            $store->putOffExpiration($key, 60);
            $store->delete($key);
            return [$held, $store->exists($key)];
        });

        self::assertSame([true, false], $child->tells());
        $child->await();
        self::assertFalse($store->exists($key));
    }

    public function testTheLockOutlivesItsProcess(): void
    {
        $child = Child::fork(function (): string {
            $this->store()->save($key = new Key($this->name));
            return base64_encode(serialize($key));
        });
        $key = unserialize(base64_decode($child->tells()));
        $child->await(); // it died of SIGKILL

        self::assertTrue($this->store()->exists($key));
        $this->store()->delete($key);
        self::assertFalse($this->store()->exists($key));
    }

    public function testEachAcquisitionHasATokenOfItsOwn(): void
    {
        $store = $this->store();
        $key = new Key($this->name);
        $store->save($key);
        $first = $key->getState(CoatcheckStore::class);
        $store->delete($key);
        $store->save($key);

        self::assertMatchesRegularExpression('/^[0-9a-f]{32}$/', $first);
        self::assertNotSame($first, $key->getState(CoatcheckStore::class));
        $store->delete($key);
    }

    public function testALostAnswerKeepsALockThatWasHeldBefore(): void
    {
        $daemon = Daemon::start();
        $client = self::streamClientAt($daemon->socket);
        $key = new Key($this->name);
        $this->store($client)->save($key);
        try {
            $this->store(new Client(new AnswerLosingTransport($client->transport)))->save($key);
            self::fail('the answer was not lost');
        } catch (\Symfony\Component\Lock\Exception\LockAcquiringException) {
            self::assertTrue($this->store($client)->exists($key));
        }
    }

    public function testSymfonysLockOfAShortTtlReportsItsEnd(): void
    {
        $lock = (new LockFactory($this->store()))->createLock($this->name, 0.5);
        self::assertTrue($lock->acquire());
        self::assertFalse($lock->isExpired());
        Daemon::eventually('the lock ends', static fn () => !$lock->isAcquired(), 2.0);
        self::assertTrue($lock->isExpired());
    }

    public function testBucketsAreLocksOfTheirOwn(): void
    {
        $store = $this->store();
        $other = new CoatcheckStore(self::client(), bucket: $this->name);
        $store->save($one = new Key($this->name));
        $other->save($two = new Key($this->name));

        self::assertTrue($store->exists($one) && $other->exists($two));
        $store->delete($one);
        $other->delete($two);
    }
}
