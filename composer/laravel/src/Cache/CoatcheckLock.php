<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Cache;

use Coatcheck\Client\Client;
use Coatcheck\Client\Exception\BusyException;
use Coatcheck\Client\Exception\RefusedException;
use Coatcheck\Client\Token;
use Illuminate\Cache\Lock;
use Illuminate\Contracts\Cache\LockTimeoutException;

/**
 * A lock of Laravel's, kept by the daemon. It is detached: it outlives the process that took it until its time is over,
 * and whoever knows its owner's text may release it.
 *
 * - block() is one request that the daemon answers when the lock is granted; nothing polls, and waiters are served in
 *   the order in which they came.
 * - As on Laravel's other stores get() is false while the lock is held, also when its own owner asks again.
 * - An acquisition whose answer was lost (an exception with outcomeIsUnknown()) may be repeated or released.
 */
final class CoatcheckLock extends Lock
{
    /** How long a try for a given owner waits for another one that is just being decided. */
    private const TRY_WAIT_SECONDS = 5.0;

    /**
     * Can nobody but this object have asked for the lock with this owner, and has it never been granted? Then the
     * daemon's answer alone decides; else see tryOnce().
     */
    private bool $ownerIsNew;

    /**
     * @param string $bucket of the lock
     * @param int|float $seconds 0 for no expiry
     * @param string|null $owner a new secret unless given
     */
    public function __construct(
        private readonly Client $client,
        private readonly string $bucket,
        string $name,
        $seconds,
        $owner = null,
    ) {
        $this->ownerIsNew = $owner === null;
        parent::__construct($name, $seconds, $owner ?? Token::random());
    }

    public function acquire()
    {
        return $this->ownerIsNew ? $this->ask(0.0) : $this->tryOnce();
    }

    /**
     * Waits in the daemon.
     *
     * @param int|float $seconds
     * @param callable|null $callback
     * @return mixed true, or what the callback returns; the lock is released after it
     *
     * @throws LockTimeoutException when the lock was not granted in time
     */
    public function block($seconds, $callback = null)
    {
        $this->waitFor(max(0.0, (float) $seconds));
        if (!is_callable($callback)) {
            return true;
        }
        try {
            return $callback();
        } finally {
            $this->release();
        }
    }

    /** @return bool false when this owner no longer holds the lock: it was released, or its time is over */
    public function release()
    {
        return $this->client->releaseLock($this->name, $this->owner, $this->bucket);
    }

    public function forceRelease()
    {
        $this->client->forceReleaseLock($this->name, $this->bucket);
    }

    /**
     * Begins the lock's time anew.
     *
     * @param int|float|null $seconds those of the lock unless given; 0 for no expiry
     * @return bool false when this owner no longer holds the lock
     */
    public function refresh($seconds = null)
    {
        try {
            $lease = Seconds::ofLease($seconds ?? $this->seconds);
            $this->client->renewLock($this->name, $this->owner, $lease, $this->bucket);
            return true;
        } catch (RefusedException) {
            return false;
        }
    }

    public function isLocked(): bool
    {
        return $this->client->lockInfo($this->name, '', $this->bucket) !== null;
    }

    public function isOwnedByCurrentProcess()
    {
        return $this->isOwnedBy($this->owner);
    }

    public function isOwnedBy($owner)
    {
        return is_string($owner) && $owner !== '' && $this->isHeldBy($owner);
    }

    /**
     * The daemon tells nobody a token, because whoever knows it may release the lock.
     *
     * @return string|null the owner when it is this object's; an empty text when it is someone else; null when the lock
     *     is free
     */
    protected function getCurrentOwner()
    {
        $info = $this->client->lockInfo($this->name, $this->owner, $this->bucket);
        return $info === null ? null : ($info['owned'] ? $this->owner : '');
    }

    private function waitFor(float $seconds): void
    {
        $deadline = self::now() + $seconds;
        while (!$this->takeUntil($deadline)) {
            if (self::now() >= $deadline) {
                throw new LockTimeoutException("the lock $this->name was not free within $seconds s");
            }
        }
    }

    private function takeUntil(float $deadline): bool
    {
        if ($this->ownerIsNew) {
            return $this->ask($deadline - self::now());
        }
        return $this->tryOnce() || ($this->awaitRelease($deadline) && $this->tryOnce());
    }

    /** Has the daemon wait as another owner would, because to its own owner the daemon grants the lock again. */
    private function awaitRelease(float $deadline): bool
    {
        $visitor = new self($this->client, $this->bucket, $this->name, 1);
        $visitor->sleepMilliseconds = $this->sleepMilliseconds;
        return $visitor->ask($deadline - self::now()) && $visitor->release();
    }

    /**
     * A try for an owner that others may know. To the daemon the same token asks for the same grant; to Laravel a lock
     * that is held is held, whoever asks. So one at a time looks whether the owner has it, and takes it if not.
     */
    private function tryOnce(): bool
    {
        $one = $this->client->lock($this->name, bucket: "$this->bucket#try");
        if (!$one->acquire(self::TRY_WAIT_SECONDS)) {
            throw $one->busy();
        }
        try {
            return !$this->isHeldBy($this->owner) && $this->ask(0.0);
        } finally {
            $one->release();
        }
    }

    private function ask(float $waitSeconds): bool
    {
        try {
            $this->client->acquireLock(
                $this->name,
                $this->owner,
                Seconds::ofLease($this->seconds),
                max(0.0, $waitSeconds),
                bucket: $this->bucket,
            );
        } catch (BusyException $busy) {
            $this->pauseIfQueueIsFull($busy, $waitSeconds);
            return false;
        }
        $this->ownerIsNew = false;
        return true;
    }

    /** The daemon makes only so many wait for one lock; who comes after that has to ask again. */
    private function pauseIfQueueIsFull(BusyException $busy, float $waitSeconds): void
    {
        if ($busy->reason() === 'queue_full' && $waitSeconds > 0) {
            usleep((int) (1000 * min($this->sleepMilliseconds, $waitSeconds * 1000)));
        }
    }

    private function isHeldBy(string $owner): bool
    {
        return $this->client->lockInfo($this->name, $owner, $this->bucket)['owned'] ?? false;
    }

    /** Seconds of a clock that nobody sets. */
    private static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
