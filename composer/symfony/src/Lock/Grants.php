<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Lock;

use Coatcheck\Client\Client;
use Coatcheck\Client\Exception\BusyException;
use Coatcheck\Client\Exception\InvalidArgumentException;
use Coatcheck\Client\Exception\RefusedException;
use Coatcheck\Client\Exception\RequestFailed;
use Coatcheck\Client\Token;
use Symfony\Component\Lock\Exception\LockAcquiringException;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Exception\LockReleasingException;
use Symfony\Component\Lock\Exception\LockStorageException;
use Symfony\Component\Lock\Key;

/**
 * What the lock stores have in common: tokens kept in Symfony's keys, requests to the daemon, and its failures as
 * Symfony's exceptions.
 *
 * A key that was granted in this process is not one in a process forked from it: there it neither exists nor can be
 * deleted, and saving it asks with a token of its own. A key that was unserialised is its process' own.
 *
 * @internal
 */
final class Grants
{
    /** One request waits so long; then it is asked again, from the end of the queue, so that a hanging daemon is noticed. */
    private const PATIENCE_SECONDS = 60.0;

    private const FULL_QUEUE_PAUSE_MICROSECONDS = 100_000;

    /** @var \WeakMap<Key, int> the process in which a key was granted */
    private \WeakMap $processes;

    /**
     * @param string $state under which name the token is kept in a key
     * @param bool $isBound do the locks belong to this process, or to their tokens?
     * @param float|null $maxWaitSeconds of a blocking acquisition; null for no limit
     */
    public function __construct(
        private readonly Client $client,
        private readonly string $state,
        private readonly bool $isBound,
        private readonly string $bucket,
        private readonly ?float $maxWaitSeconds,
    ) {
        $this->processes = new \WeakMap();
    }

    /**
     * Takes the lock, or converts it between shared and exclusive, and begins its lease anew.
     *
     * @return float how many seconds of the lease may be over by now, at most
     */
    public function take(Key $key, float $leaseSeconds, bool $shared, bool $wait): float
    {
        $this->forgetForeign($key);
        $isNew = !$key->hasState($this->state);
        if ($isNew) {
            $key->setState($this->state, Token::random());
        }
        try {
            $spent = $this->waitFor($key, $leaseSeconds, $shared, $wait ? $this->maxWaitSeconds : 0.0);
        } catch (LockConflictedException | LockAcquiringException $notTaken) {
            if ($isNew) {
                $this->abandon($key, $notTaken);
            }
            throw $notTaken;
        }
        $this->processes[$key] = getmypid();
        return $spent;
    }

    /** Begins the lease anew. */
    public function renew(Key $key, float $leaseSeconds): void
    {
        $this->forgetForeign($key);
        if (!$key->hasState($this->state)) {
            throw new LockConflictedException("the lock \"$key\" is not held");
        }
        try {
            $this->client->renewLock((string) $key, $this->token($key), $leaseSeconds, $this->bucket);
        } catch (RefusedException $refused) {
            throw new LockConflictedException("the lock \"$key\" is no longer held", 0, $refused);
        } catch (RequestFailed $failure) {
            throw new LockStorageException("the lock \"$key\" is not renewed: {$failure->getMessage()}", 0, $failure);
        }
    }

    /** Gives the lock back; nothing happens when this key does not hold it. */
    public function release(Key $key): void
    {
        $this->forgetForeign($key);
        if (!$key->hasState($this->state)) {
            return;
        }
        try {
            $this->client->releaseLock((string) $key, $this->token($key), $this->bucket);
        } catch (RequestFailed $failure) {
            $message = "the lock \"$key\" is not released: {$failure->getMessage()}";
            throw new LockReleasingException($message, 0, $failure);
        }
        $this->forget($key);
    }

    public function isHeld(Key $key): bool
    {
        $this->forgetForeign($key);
        if (!$key->hasState($this->state)) {
            return false;
        }
        try {
            return $this->client->lockInfo((string) $key, $this->token($key), $this->bucket)['owned'] ?? false;
        } catch (RequestFailed $failure) {
            throw new LockStorageException("the lock \"$key\" is not known: {$failure->getMessage()}", 0, $failure);
        }
    }

    /** @param float|null $maxWaitSeconds null for no limit */
    private function waitFor(Key $key, float $leaseSeconds, bool $shared, ?float $maxWaitSeconds): float
    {
        $began = hrtime(true);
        while (true) {
            $left = ($maxWaitSeconds ?? INF) - (hrtime(true) - $began) / 1e9;
            try {
                return $this->ask($key, $leaseSeconds, $shared, max(0.0, min($left, self::PATIENCE_SECONDS)));
            } catch (BusyException $busy) {
                if ($left <= self::PATIENCE_SECONDS && ($left <= 0 || $busy->reason() !== 'queue_full')) {
                    throw new LockConflictedException($busy->getMessage(), 0, $busy);
                }
                if ($busy->reason() === 'queue_full') {
                    usleep(self::FULL_QUEUE_PAUSE_MICROSECONDS);
                }
            } catch (RequestFailed | InvalidArgumentException $failure) {
                throw new LockAcquiringException($failure->getMessage(), 0, $failure);
            }
        }
    }

    private function ask(Key $key, float $leaseSeconds, bool $shared, float $waitSeconds): float
    {
        $asked = hrtime(true);
        $grant = $this->client->acquireLock(
            (string) $key,
            $this->token($key),
            $leaseSeconds,
            $waitSeconds,
            $this->isBound,
            $shared,
            $this->bucket,
        );
        // The lease began no earlier than the request and its wait, whatever the way back took.
        return (hrtime(true) - $asked) / 1e9 - $grant['waited_ms'] / 1000;
    }

    /** A new token that was not granted is used no more; should it have been granted after all, it is given back. */
    private function abandon(Key $key, \Throwable $notTaken): void
    {
        $failure = $notTaken->getPrevious();
        if ($failure instanceof RequestFailed && $failure->outcomeIsUnknown()) {
            try {
                $this->client->releaseLock((string) $key, $this->token($key), $this->bucket);
            } catch (RequestFailed) {
                // The lease ends it.
            }
        }
        $this->forget($key);
    }

    private function forgetForeign(Key $key): void
    {
        if (isset($this->processes[$key]) && $this->processes[$key] !== getmypid()) {
            $this->forget($key);
        }
    }

    private function forget(Key $key): void
    {
        $key->removeState($this->state);
        unset($this->processes[$key]);
    }

    private function token(Key $key): string
    {
        return $key->getState($this->state);
    }
}
