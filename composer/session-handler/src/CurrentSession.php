<?php

declare(strict_types=1);

namespace Coatcheck\Session;

use Coatcheck\Client\Client;
use Coatcheck\Client\Exception\ConnectionException;
use Coatcheck\Client\Exception\InternalException;
use Coatcheck\Client\Exception\ProtocolException;
use Coatcheck\Client\Exception\RefusedException;
use Coatcheck\Client\Exception\RequestFailed;
use Coatcheck\Client\Exception\TimeoutException;
use Coatcheck\Client\Exception\UnreachableOwnerException;
use Coatcheck\Client\OpenedSession;
use Coatcheck\Client\Token;

/**
 * What is said to the daemon between PHP's open and close, with the token and what is known of it.
 *
 * The token of an acquisition is kept from before it is sent, and forgotten when its release is confirmed, when the
 * daemon said that it was not granted, or when the connection was closed and everything bound to it with it. Nothing here
 * warns: failures are exceptions, and Handler finds the words.
 *
 * @internal
 */
final class CurrentSession
{
    /** For a session.gc_maxlifetime of 0 or less, which would be a session that ends before it is read. */
    private const DEFAULT_LIFETIME_SECONDS = 1440;
    private const MAX_LIFETIME_SECONDS = 100 * 365 * 86_400;

    private readonly int $pid;
    private string $id = '';
    private string $token = '';
    private bool $tokenIsOut = false;
    private ?OpenedSession $opened = null;

    public function __construct(private readonly Client $client, public readonly Settings $settings)
    {
        $this->pid = (int) getmypid();
    }

    /** Another one beside it, over the same connection. */
    public function sibling(): self
    {
        return new self($this->client, $this->settings);
    }

    /** Is this the process that opened, and not one forked from it? */
    public function belongsHere(): bool
    {
        return $this->pid === getmypid();
    }

    /** Is this the session that was read, or was tried to be read? */
    public function is(string $id): bool
    {
        return $this->id === $id;
    }

    public function hasId(): bool
    {
        return $this->id !== '';
    }

    public function isRead(): bool
    {
        return $this->opened !== null;
    }

    public function isLocked(): bool
    {
        return $this->opened !== null && $this->opened->isLocked;
    }

    /** Did another request keep the lock, so that changes of this one are to be dropped? */
    public function isReadonly(): bool
    {
        return $this->settings->sessionLocking && !$this->isLocked()
            && $this->settings->lockFailure === Settings::READONLY;
    }

    /**
     * Reads the session and takes its lock, if the settings ask for one. Another session's token is given back first.
     *
     * @throws RequestFailed
     */
    public function open(string $id): OpenedSession
    {
        if ($this->id !== $id) {
            $this->release();
        }
        $this->id = $id;
        $this->opened = null;
        if (!$this->settings->sessionLocking) {
            return $this->opened = $this->client->openSession($id, prefix: $this->settings->prefix);
        }
        if (!$this->tokenIsOut) {
            $this->token = Token::random();
        }
        $this->tokenIsOut = true;
        try {
            $this->opened = $this->client->openSession(
                $id,
                $this->token,
                $this->settings->lockLeaseSeconds,
                $this->settings->lockWaitSeconds,
                $this->settings->lockFailure,
                $this->settings->prefix,
            );
        } catch (RequestFailed $failure) {
            // what may have been granted all the same is released by the close
            $this->tokenIsOut = $failure instanceof UnreachableOwnerException || $failure instanceof InternalException
                || $failure instanceof ConnectionException;
            throw $failure;
        }
        $this->tokenIsOut = $this->opened->isLocked;
        return $this->opened;
    }

    /** Reads the session, and takes no lock: for a write to one that nobody read. */
    public function openUnlocked(string $id): void
    {
        $this->id = $id;
        $this->opened = $this->client->openSession($id, prefix: $this->settings->prefix);
    }

    /**
     * Stores the data, or only begins the session's life anew when it is null, and releases the lock in the same step.
     *
     * @return bool false when there was no record to begin anew: nothing was released
     *
     * @throws RequestFailed
     */
    public function commit(?string $data): bool
    {
        $isLocked = $this->isLocked();
        try {
            $stored = $this->client->commitSession(
                $this->id,
                $this->opened->fence,
                $data,
                self::lifetimeSeconds(),
                $isLocked ? $this->token : '',
                $isLocked,
                $this->settings->prefix,
            );
        } catch (RequestFailed $failure) {
            $this->forgetAfter($failure, RefusedException::class); // a refusal releases as well
            throw $failure;
        }
        $this->tokenIsOut = $this->tokenIsOut && !$stored;
        return $stored;
    }

    /** @throws RequestFailed */
    public function exists(string $id): bool
    {
        return $this->client->sessionExists($id, $this->settings->prefix);
    }

    /** @throws RequestFailed */
    public function destroy(string $id): void
    {
        $withToken = $this->tokenIsOut && $this->belongsHere() && $this->is($id);
        try {
            $this->client->destroySession($id, $withToken ? $this->token : '', $this->settings->prefix);
        } catch (RequestFailed $failure) {
            $this->forgetAfter($failure);
            throw $failure;
        }
        $this->tokenIsOut = $this->tokenIsOut && !$withToken;
    }

    /**
     * Releases what the token may hold. Nobody is told of a failure: the page has its data, and the daemon frees the
     * lock when the connection or the request ends.
     */
    public function release(): void
    {
        if (!$this->tokenIsOut || !$this->belongsHere()) {
            return;
        }
        $this->tokenIsOut = false;
        try {
            $this->client->releaseSession($this->id, $this->token, $this->settings->prefix);
        } catch (RequestFailed) {
        }
    }

    /** As if no session had been read. */
    public function forget(): void
    {
        $this->release();
        $this->id = '';
        $this->opened = null;
    }

    /** After a time-out or nonsense the connection was closed, and with it went what was bound to it. */
    private function forgetAfter(RequestFailed $failure, string ...$classes): void
    {
        foreach ([TimeoutException::class, ProtocolException::class, ...$classes] as $class) {
            $this->tokenIsOut = $this->tokenIsOut && !$failure instanceof $class;
        }
    }

    private static function lifetimeSeconds(): int
    {
        $seconds = (int) ini_get('session.gc_maxlifetime');
        return $seconds > 0 ? min($seconds, self::MAX_LIFETIME_SECONDS) : self::DEFAULT_LIFETIME_SECONDS;
    }
}
