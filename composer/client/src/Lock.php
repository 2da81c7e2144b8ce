<?php

declare(strict_types=1);

namespace Coatcheck\Client;

use Coatcheck\Client\Exception\BusyException;
use Coatcheck\Client\Exception\InvalidArgumentException;
use Coatcheck\Client\Exception\RefusedException;
use Coatcheck\Client\Exception\RequestFailed;

/**
 * A named lock. Waiting is done by the daemon: one request, answered when the lock is granted or the wait is over.
 *
 * A bound lock belongs to this process: it is renewed while the process lives and free when it dies, and only this
 * process may release it. A detached lock belongs to its token: keep name() and token(), and any process can go on
 * with it (Client::restoreLock).
 *
 * Each acquisition has a token of its own, which is sent again while its outcome is unknown, so an acquisition whose
 * answer was lost can be repeated or released safely.
 */
final class Lock
{
    private ?string $token = null;
    private int $fence = 0;
    private int $pid = 0;
    private bool $mayBeHeld = false;
    private ?BusyException $busy = null;

    private function __construct(
        private readonly Client $client,
        private readonly string $name,
        private readonly ?float $leaseSeconds,
        private readonly bool $isBound,
        private bool $isShared,
        private readonly string $bucket,
        private readonly ?string $givenToken,
    ) {
        if ($name === '') {
            throw new InvalidArgumentException('a lock needs a name');
        }
    }

    /** @internal use Client::lock() */
    public static function bound(Client $client, string $name, float $leaseSeconds, bool $shared, string $bucket): self
    {
        return new self($client, $name, $leaseSeconds, true, $shared, $bucket, null);
    }

    /** @internal use Client::detachedLock() */
    public static function detached(
        Client $client,
        string $name,
        ?float $leaseSeconds,
        bool $shared,
        string $bucket,
        ?string $token,
    ): self {
        return new self($client, $name, $leaseSeconds, false, $shared, $bucket, $token);
    }

    /** @internal use Client::restoreLock() */
    public static function restored(
        Client $client,
        string $name,
        string $token,
        ?float $leaseSeconds,
        bool $shared,
        string $bucket,
    ): self {
        $lock = new self($client, $name, $leaseSeconds, false, $shared, $bucket, $token);
        $lock->token = $token;
        $lock->mayBeHeld = true;
        return $lock;
    }

    /**
     * Takes the lock. One that is held already by this object is taken again: its lease begins anew.
     *
     * @param float $waitSeconds how long the daemon may wait for it; 0 asks once
     * @return bool false when someone else holds it; busy() says who
     *
     * @throws RequestFailed when the daemon could not decide. When outcomeIsUnknown(), the lock may have been granted:
     *     acquire again or release
     */
    public function acquire(float $waitSeconds = 0.0): bool
    {
        return $this->take($waitSeconds, $this->isShared);
    }

    /** Makes a reader's lock the writer's, in one step; only the sole reader can. @return bool false when there are others */
    public function promote(float $waitSeconds = 0.0): bool
    {
        return $this->take($waitSeconds, false);
    }

    /** Makes the writer's lock a reader's, in one step: nobody gets in between. */
    public function demote(): bool
    {
        return $this->take(0.0, true);
    }

    /**
     * Gives the lock back.
     *
     * @return bool did this object's token hold it? False when it was never taken, when its lease ran out, and for a
     *     bound lock in a process forked from the one that took it
     */
    public function release(): bool
    {
        if ($this->token === null || !$this->mayBeHeld || !$this->belongsHere()) {
            return false;
        }
        $wasHeld = $this->client->releaseLock($this->name, $this->token, $this->bucket);
        $this->forget();
        return $wasHeld;
    }

    /**
     * Begins the lease anew.
     *
     * @param float|null $leaseSeconds that of the lock unless given
     * @return bool false when this token no longer holds the lock
     */
    public function renew(?float $leaseSeconds = null): bool
    {
        if ($this->token === null || !$this->belongsHere()) {
            return false;
        }
        $lease = $leaseSeconds ?? $this->leaseSeconds;
        try {
            $this->fence = $this->client->renewLock($this->name, $this->token, $lease, $this->bucket);
            return true;
        } catch (RefusedException) {
            $this->forget();
            return false;
        }
    }

    /** Does this object's token hold the lock now? Asks the daemon. */
    public function isAcquired(): bool
    {
        if ($this->token === null || !$this->belongsHere()) {
            return false;
        }
        return $this->client->lockInfo($this->name, $this->token, $this->bucket)['owned'] ?? false;
    }

    /** Does anybody hold the lock now? Asks the daemon. */
    public function isHeld(): bool
    {
        return $this->client->lockInfo($this->name, '', $this->bucket) !== null;
    }

    /**
     * The number of the grant. It grows with every grant of this lock, so whatever the lock protects can refuse who comes
     * with a lower one. 0 before acquire().
     */
    public function fence(): int
    {
        return $this->fence;
    }

    /** Who had the lock when acquire() last returned false. */
    public function busy(): ?BusyException
    {
        return $this->busy;
    }

    /** The secret that releases the lock; null before acquire(). */
    public function token(): ?string
    {
        return $this->token;
    }

    public function name(): string
    {
        return $this->name;
    }

    public function bucket(): string
    {
        return $this->bucket;
    }

    public function isBound(): bool
    {
        return $this->isBound;
    }

    public function isShared(): bool
    {
        return $this->isShared;
    }

    public function leaseSeconds(): ?float
    {
        return $this->leaseSeconds;
    }

    /** A bound lock goes with its object; the daemon frees it with the process should this fail. */
    public function __destruct()
    {
        if (!$this->isBound) {
            return;
        }
        try {
            $this->release();
        } catch (RequestFailed) {
        }
    }

    private function __clone()
    {
    }

    public function __serialize(): array
    {
        throw new \LogicException('keep the name and token of a detached lock, and use Client::restoreLock()');
    }

    private function take(float $waitSeconds, bool $shared): bool
    {
        if (!$this->belongsHere()) {
            $this->forget(); // of the process that forked this one
        }
        $this->token ??= $this->givenToken ?? Token::random();
        $this->pid = (int) getmypid();
        $wasHeld = $this->mayBeHeld;
        $this->mayBeHeld = true;
        try {
            $this->fence = $this->client->acquireLock(
                $this->name,
                $this->token,
                $this->leaseSeconds,
                $waitSeconds,
                $this->isBound,
                $shared,
                $this->bucket,
            )['fence'];
        } catch (BusyException $busy) {
            $this->busy = $busy;
            $wasHeld || $this->forget();
            return false;
        }
        $this->isShared = $shared;
        $this->busy = null;
        return true;
    }

    /** A bound lock is its process' own; a token alone may be used anywhere. */
    private function belongsHere(): bool
    {
        return !$this->isBound || $this->pid === 0 || $this->pid === getmypid();
    }

    private function forget(): void
    {
        $this->token = $this->givenToken;
        $this->fence = 0;
        $this->mayBeHeld = false;
    }
}
