<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Tests\Lock;

use Coatcheck\Client\Client;
use Coatcheck\Symfony\Tests\AsksDaemon;
use Coatcheck\Tests\Packages\Child;
use Coatcheck\Tests\Packages\Daemon;
use PHPUnit\Framework\TestCase;
use Symfony\Component\Lock\BlockingSharedLockStoreInterface;
use Symfony\Component\Lock\BlockingStoreInterface;
use Symfony\Component\Lock\Exception\LockAcquiringException;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Exception\LockReleasingException;
use Symfony\Component\Lock\Exception\LockStorageException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\LockFactory;

/**
 * What Symfony expects of a store that saves, waits and shares, and what ours promise beyond.
 */
abstract class LockStoreContract extends TestCase
{
    use AsksDaemon;

    protected string $name;

    abstract protected function store(
        ?Client $client = null,
        ?float $maxWait = null,
    ): BlockingStoreInterface&BlockingSharedLockStoreInterface;

    protected function setUp(): void
    {
        $this->name = self::freshName();
    }

    public function testAKeyIsSavedAndDeleted(): void
    {
        $store = $this->store();
        $key = new Key($this->name);
        self::assertFalse($store->exists($key));

        $store->save($key);
        self::assertTrue($store->exists($key));

        $store->delete($key);
        self::assertFalse($store->exists($key));
    }

    public function testDifferentResourcesAreDifferentLocks(): void
    {
        $store = $this->store();
        [$one, $other] = [new Key("$this->name 1"), new Key("$this->name 2")];

        $store->save($one);
        self::assertFalse($store->exists($other));
        $store->save($other);
        $store->delete($one);

        self::assertFalse($store->exists($one));
        self::assertTrue($store->exists($other));
        $store->delete($other);
    }

    public function testTheSecondKeyOfAResourceConflictsUntilTheFirstIsDeleted(): void
    {
        $store = $this->store();
        [$one, $other] = [new Key($this->name), new Key($this->name)];
        $store->save($one);

        self::assertConflict(static fn () => $store->save($other));
        self::assertTrue($store->exists($one));
        self::assertFalse($store->exists($other));

        $store->delete($one);
        $store->save($other);
        self::assertFalse($store->exists($one));
        self::assertTrue($store->exists($other));
        $store->delete($other);
    }

    public function testAKeyMayBeSavedTwice(): void
    {
        $store = $this->store();
        $key = new Key($this->name);
        $store->save($key);
        $store->save($key);
        self::assertTrue($store->exists($key));

        $store->delete($key);
        self::assertFalse($store->exists($key), 'and is deleted once');
    }

    public function testDeletingAKeyThatDoesNotHoldTheLockDoesNothing(): void
    {
        $store = $this->store();
        [$one, $other] = [new Key($this->name), new Key($this->name)];
        $store->save($one);

        $store->delete($other);

        self::assertTrue($store->exists($one));
        $store->delete($one);
        $store->delete($one);
    }

    public function testPuttingOffWithoutHoldingConflicts(): void
    {
        $store = $this->store();
        [$one, $other] = [new Key($this->name), new Key($this->name)];
        self::assertConflict(static fn () => $store->putOffExpiration($other, 10), 'nobody holds it');

        $store->save($one);
        self::assertConflict(static fn () => $store->putOffExpiration($other, 10), 'another holds it');

        $store->putOffExpiration($one, 10);
        $this->client()->forceReleaseLock($this->name);
        self::assertConflict(static fn () => $store->putOffExpiration($one, 10), 'it was lost');
        self::assertFalse($store->exists($one));
    }

    public function testReadersShareAndKeepTheWriterOut(): void
    {
        $store = $this->store();
        [$reader, $second, $writer] = [new Key($this->name), new Key($this->name), new Key($this->name)];
        $store->saveRead($reader);
        $store->saveRead($second);
        self::assertTrue($store->exists($reader) && $store->exists($second));
        self::assertConflict(static fn () => $store->save($writer));

        $store->delete($reader);
        self::assertConflict(static fn () => $store->save($writer), 'one reader is left');

        $store->delete($second);
        $store->save($writer);
        self::assertTrue($store->exists($writer));
        $store->delete($writer);
    }

    public function testAWriterKeepsReadersOut(): void
    {
        $store = $this->store();
        [$writer, $reader] = [new Key($this->name), new Key($this->name)];
        $store->save($writer);
        self::assertConflict(static fn () => $store->saveRead($reader));

        $store->delete($writer);
        $store->saveRead($reader);
        self::assertTrue($store->exists($reader));
        $store->delete($reader);
    }

    public function testASoleReaderIsPromoted(): void
    {
        $store = $this->store();
        [$key, $other] = [new Key($this->name), new Key($this->name)];
        $store->saveRead($key);

        $store->save($key);

        self::assertTrue($store->exists($key));
        self::assertConflict(static fn () => $store->saveRead($other));
        $store->delete($key);
    }

    public function testAReaderAmongOthersIsNotPromotedAndStaysAReader(): void
    {
        $store = $this->store();
        [$key, $other, $third] = [new Key($this->name), new Key($this->name), new Key($this->name)];
        $store->saveRead($key);
        $store->saveRead($other);

        self::assertConflict(static fn () => $store->save($key));

        self::assertTrue($store->exists($key) && $store->exists($other));
        $store->saveRead($third);
        array_map([$store, 'delete'], [$key, $other, $third]);
    }

    public function testAWriterIsDemotedAndLetsReadersIn(): void
    {
        $store = $this->store();
        [$key, $other] = [new Key($this->name), new Key($this->name)];
        $store->save($key);

        $store->saveRead($key);
        $store->saveRead($other);

        self::assertTrue($store->exists($key) && $store->exists($other));
        array_map([$store, 'delete'], [$key, $other]);
    }

    public function testWaitingIsOneRequestThatIsAnsweredWithTheRelease(): void
    {
        $holder = $this->holdInAChild(function (): void {
            Daemon::eventually('somebody waits', fn () => $this->client()->lockInfo($this->name)['waiters'] === 1);
        });
        $transport = self::countingTransport();
        $store = $this->store(new Client($transport));
        $key = new Key($this->name);

        $store->waitAndSave($key);

        self::assertSame(['lock.acquire'], $transport->take());
        self::assertTrue($store->exists($key));
        $holder->await();
        $store->delete($key);
    }

    public function testAReaderWaitsForTheWriter(): void
    {
        $holder = $this->holdInAChild(function (): void {
            Daemon::eventually('somebody waits', fn () => $this->client()->lockInfo($this->name)['waiters'] === 1);
        });
        $store = $this->store();
        $key = new Key($this->name);

        $store->waitAndSaveRead($key);
        $store->saveRead($other = new Key($this->name));

        self::assertTrue($store->exists($key));
        $holder->await();
        array_map([$store, 'delete'], [$key, $other]);
    }

    public function testAWaitMayHaveALimit(): void
    {
        $store = $this->store(maxWait: 0.2);
        [$one, $other] = [new Key($this->name), new Key($this->name)];
        $store->save($one);

        $began = microtime(true);
        self::assertConflict(static fn () => $store->waitAndSave($other));
        self::assertGreaterThanOrEqual(0.19, microtime(true) - $began);
        self::assertConflict(static fn () => $store->waitAndSaveRead($other));
        $store->delete($one);
    }

    public function testAFullQueueIsNoReasonToGiveUp(): void
    {
        $daemon = Daemon::start(['COATCHECK_LOCK_MAX_WAITERS' => '1']);
        $client = self::streamClientAt($daemon->socket);
        $holder = $this->store($client);
        $holder->save($held = new Key($this->name));
        $first = Child::fork(function (callable $tell) use ($daemon): string {
            $tell('waiting');
            self::streamClientAt($daemon->socket)->acquireLock($this->name, 'first in the queue', 0.3, 20.0);
            return 'got it';
        });
        self::assertSame('waiting', $first->tells());
        Daemon::eventually('it is in the queue', fn () => $client->lockInfo($this->name)['waiters'] === 1);

        $second = Child::fork(function () use ($daemon): string {
            $this->store(self::streamClientAt($daemon->socket))->waitAndSave(new Key($this->name));
            return 'got it as well';
        });
        $holder->delete($held);

        self::assertSame('got it', $first->tells());
        self::assertSame('got it as well', $second->tells());
        $first->await();
        $second->await();
    }

    public function testAForkedProcessHoldsNothingOfItsParent(): void
    {
        $store = $this->store();
        $factory = new LockFactory($store);
        $lock = $factory->createLock($this->name, null);
        self::assertTrue($lock->acquire());
        $key = new Key("$this->name, by key");
        $store->save($key);

        $child = Child::fork(static function () use (&$lock, $store, $key): array {
            $seen = [$lock->isAcquired(), $store->exists($key)];
            $store->delete($key);
            unset($lock); // releases by itself, unless it knows better
            gc_collect_cycles();
            try {
                $store->save($key);
                return [...$seen, 'got it too'];
            } catch (LockConflictedException) {
                return [...$seen, 'conflict'];
            }
        });

        self::assertSame([false, false, 'conflict'], $child->tells());
        $child->await();
        self::assertTrue($lock->isAcquired());
        self::assertTrue($store->exists($key));
        $lock->release();
        $store->delete($key);
    }

    public function testAWaitingKeyHasNoTokenThatAForkCouldShare(): void
    {
        $store = $this->store();
        $store->save($holder = new Key($this->name));
        $key = new Key($this->name);
        self::assertConflict(static fn () => $store->save($key));

        self::assertFalse($key->hasState($store::class));
        self::assertTrue($holder->hasState($store::class));
        $store->delete($holder);
    }

    public function testSymfonysLockTakesAndReleases(): void
    {
        $factory = new LockFactory($this->store());
        $lock = $factory->createLock($this->name, 10);
        $other = $factory->createLock($this->name, 10);

        self::assertTrue($lock->acquire());
        self::assertFalse($other->acquire());
        self::assertTrue($lock->isAcquired());
        $lock->refresh();
        $lock->release();
        self::assertTrue($other->acquireRead());
        self::assertTrue($lock->acquireRead(true));
        $lock->release();
        $other->release();
    }

    public function testAReleaseIsOneRoundTrip(): void
    {
        $transport = self::countingTransport();
        $lock = (new LockFactory($this->store(new Client($transport))))->createLock($this->name, null);
        $lock->acquire();
        self::assertSame(['lock.acquire'], $transport->take());

        $lock->release();
        self::assertSame(['lock.release'], $transport->take());
    }

    public function testEveryFailureOfTheDaemonIsAnExceptionOfSymfonys(): void
    {
        $daemon = Daemon::start();
        $store = $this->store(self::streamClientAt($daemon->socket));
        $key = new Key($this->name);
        $store->save($key);
        $daemon->kill();

        self::assertFailure(LockAcquiringException::class, $daemon->socket, static fn () => $store->save($key));
        self::assertFailure(LockAcquiringException::class, $daemon->socket, static fn () => $store->waitAndSave($key));
        self::assertFailure(LockAcquiringException::class, $daemon->socket, static fn () => $store->saveRead($key));
        self::assertFailure(LockStorageException::class, $daemon->socket, static fn () => $store->exists($key));
        $putOff = static fn () => $store->putOffExpiration($key, 9);
        self::assertFailure(LockStorageException::class, $daemon->socket, $putOff);
        self::assertFailure(LockReleasingException::class, $daemon->socket, static fn () => $store->delete($key));
    }

    public function testAGrantWhoseAnswerNeverCameIsGivenBack(): void
    {
        $daemon = Daemon::start();
        $transport = new AnswerLosingTransport(self::streamClientAt($daemon->socket)->transport);
        $store = $this->store(new Client($transport));

        self::assertFailure(LockAcquiringException::class, 'lost', fn () => $store->save(new Key($this->name)));

        self::assertNull(self::streamClientAt($daemon->socket)->lockInfo($this->name), 'nobody holds it');
    }

    /** A process that holds the lock while $work goes on, and then releases it. */
    protected function holdInAChild(callable $work): Child
    {
        $child = Child::fork(function (callable $tell) use ($work): string {
            $store = $this->store();
            $store->save($key = new Key($this->name));
            $tell('held');
            $work();
            $store->delete($key);
            return 'released';
        });
        self::assertSame('held', $child->tells());
        return $child;
    }

    protected static function assertConflict(callable $act, string $message = ''): void
    {
        try {
            $act();
        } catch (LockConflictedException $conflict) {
            self::assertNotSame('', $conflict->getMessage(), 'it says who is in the way');
            return;
        }
        self::fail("no conflict $message");
    }

    /** @param class-string $class */
    private static function assertFailure(string $class, string $part, callable $act): void
    {
        try {
            $act();
        } catch (\Throwable $failure) {
            self::assertInstanceOf($class, $failure);
            self::assertStringContainsString($part, $failure->getMessage());
            return;
        }
        self::fail("no $class");
    }
}
