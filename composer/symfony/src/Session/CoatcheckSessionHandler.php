<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Session;

use Coatcheck\Client\Client;
use Coatcheck\Client\Exception\RefusedException;
use Coatcheck\Client\Exception\RequestFailed;
use Coatcheck\Client\OpenedSession;
use Coatcheck\Client\Token;
use Psr\Log\LoggerInterface;
use Symfony\Component\HttpFoundation\Session\Storage\Handler\AbstractSessionHandler;

/**
 * Sessions in the daemon, with locking: from its read to its write a session belongs to one request, and the others
 * wait in the daemon, first in first out. Two round trips: the read takes the lock, the write gives it back.
 *
 * A write is refused, and logged with the reason, when the lock was meanwhile granted to another or the session
 * destroyed; nothing is overwritten then. A read that fails is an exception and never an empty session. When the
 * process dies its lock is free at once.
 *
 * Options:
 *  - prefix: a keyspace of its own, ''
 *  - ttl: seconds (or a closure that returns them); session.gc_maxlifetime unless given
 *  - locking: true
 *  - lock_lease: seconds that a lock lasts once nobody can renew it any more, 30
 *  - lock_wait: seconds that the daemon waits for a contended lock, 30
 *  - lock_failure: what a contended lock means after that wait: `unlocked` (go on and log; the last to write wins),
 *    `readonly` (go on and log; changes are dropped) or `fail` (a BusyException of coatcheck/client)
 */
final class CoatcheckSessionHandler extends AbstractSessionHandler
{
    private readonly SessionOptions $options;
    private ?CurrentSession $current = null;
    private bool $isWriting = false;

    /** @param array<string, mixed> $options */
    public function __construct(
        private readonly Client $client,
        array $options = [],
        private readonly ?LoggerInterface $logger = null,
    ) {
        $this->options = SessionOptions::from($options);
    }

    /**
     * In strict mode PHP asks this first. The answer comes from reading, so the lock is taken here.
     *
     * @param string $sessionId
     */
    public function validateId(#[\SensitiveParameter] $sessionId): bool
    {
        // Whatever a cookie says that no session can be called is unknown, and no reason for an error page.
        return preg_match('/^[A-Za-z0-9,-]{1,256}$/D', $sessionId) === 1 && parent::validateId($sessionId);
    }

    /**
     * @param string $sessionId
     */
    public function read(#[\SensitiveParameter] $sessionId): string
    {
        if ($this->current?->id !== $sessionId) {
            $this->releaseCurrent(); // an id that strict mode refused
        }
        $data = parent::read($sessionId);
        // After an id that strict mode refused, the parent answers for the new one without asking.
        return $this->current?->id === $sessionId ? $data : $this->doRead($sessionId);
    }

    /**
     * The parent destroys a session that is written empty, and has doWrite() write any other.
     *
     * @param string $sessionId
     * @param string $data
     */
    public function write(#[\SensitiveParameter] $sessionId, $data): bool
    {
        $session = $this->current?->id === $sessionId ? $this->current : null;
        if ($session !== null && !$session->isOurs()) {
            return $this->refuse($session, 'it belongs to the process that forked this one');
        }
        if ($session !== null && $this->isReadonly($session)) {
            return $this->refuse($session, 'another request holds its lock, and lock_failure is readonly');
        }
        $this->isWriting = true;
        try {
            return parent::write($sessionId, $data);
        } finally {
            $this->isWriting = false;
        }
    }

    /**
     * @param string $sessionId
     * @param string $data
     */
    public function updateTimestamp(#[\SensitiveParameter] $sessionId, $data): bool
    {
        $session = $this->current;
        if ($session?->id !== $sessionId) {
            return $this->doWrite($sessionId, $data);
        }
        if (!$session->isOurs()) {
            return true; // the process that read it keeps it alive
        }
        try {
            $isStored = $this->commit($session, null);
        } catch (RefusedException $refused) {
            return $this->refuse($session, $refused->getMessage());
        }
        // A record that has vanished is written again.
        return $isStored || $this->isReadonly($session) || $this->doWrite($sessionId, $data);
    }

    /** Gives the lock back when nothing was written. */
    public function close(): bool
    {
        $this->releaseCurrent();
        return true;
    }

    /**
     * Expiry is the daemon's job.
     *
     * @param int $maxlifetime in seconds
     */
    public function gc($maxlifetime): int|false
    {
        return 0;
    }

    protected function doRead(#[\SensitiveParameter] string $sessionId): string
    {
        $token = $this->tokenFor($sessionId);
        $opened = $this->client->openSession(
            $sessionId,
            $token,
            $this->options->leaseSeconds,
            $this->options->waitSeconds,
            $this->options->lockFailure,
            $this->options->prefix,
        );
        $this->current = new CurrentSession($sessionId, $opened->isLocked ? $token : '', $opened->fence);
        if ($this->options->isLocking && !$opened->isLocked) {
            $this->warnOfContention($sessionId, $opened);
        }
        return $opened->data;
    }

    protected function doWrite(#[\SensitiveParameter] string $sessionId, string $data): bool
    {
        $session = $this->current;
        if ($session?->id !== $sessionId) {
            // As MigratingSessionHandler does to the handler that it only writes to.
            $opened = $this->client->openSession($sessionId, prefix: $this->options->prefix);
            $session = new CurrentSession($sessionId, '', $opened->fence);
        }
        try {
            return $this->commit($session, $data);
        } catch (RefusedException $refused) {
            return $this->refuse($session, $refused->getMessage());
        }
    }

    protected function doDestroy(#[\SensitiveParameter] string $sessionId): bool
    {
        $session = $this->current?->id === $sessionId && $this->current->isOurs() ? $this->current : null;
        if ($this->isWriting && $session !== null) {
            // Anybody may destroy, but only who still may write can write it empty. The lock is kept until it is gone.
            try {
                $this->commit($session, '', false);
            } catch (RefusedException $refused) {
                return $this->refuse($session, $refused->getMessage());
            }
        }
        $this->client->destroySession($sessionId, $session?->token ?? '', $this->options->prefix);
        if ($session !== null) {
            $this->current = null;
        }
        return true;
    }

    /** The same token again when PHP reads a session that it has not closed, as session_reset() does. */
    private function tokenFor(string $id): string
    {
        if (!$this->options->isLocking) {
            return '';
        }
        $session = $this->current;
        $isHeld = $session?->id === $id && $session->isOurs() && $session->isLocked() && !$session->isReleased;
        return $isHeld ? $session->token : Token::random();
    }

    /** Writes, or only begins the session's life anew, and releases the lock in the same step. */
    private function commit(CurrentSession $session, ?string $data, bool $release = true): bool
    {
        $isStored = $this->client->commitSession(
            $session->id,
            $session->fence,
            $data,
            $this->options->ttlSeconds(),
            $session->token,
            $release,
            $this->options->prefix,
        );
        $session->isReleased = $isStored && $release;
        return $isStored;
    }

    /** There is no lock left: a writer is refused who has lost it, or never had it. */
    private function refuse(CurrentSession $session, string $why): bool
    {
        $session->isReleased = true;
        $this->warn($session->id, "is not written: $why");
        return false;
    }

    private function isReadonly(CurrentSession $session): bool
    {
        return $this->options->isLocking && !$session->isLocked() && $this->options->lockFailure === 'readonly';
    }

    private function releaseCurrent(): void
    {
        $session = $this->current;
        $this->current = null;
        if ($session === null || !$session->isLocked() || $session->isReleased || !$session->isOurs()) {
            return;
        }
        try {
            $this->client->releaseSession($session->id, $session->token, $this->options->prefix);
        } catch (RequestFailed $failure) {
            // The daemon frees it with the request, or when its lease is over.
            $this->warn($session->id, "is not released: {$failure->getMessage()}");
        }
    }

    private function warnOfContention(string $id, OpenedSession $opened): void
    {
        $holder = $opened->holder ?? [];
        $this->warn($id, sprintf(
            'is not locked: after %.1f s of waiting, pid %d (%s) had held it for %.1f s; this request goes on, and %s',
            $opened->waitedSeconds,
            $holder['pid'] ?? 0,
            $holder['script'] ?? '',
            ($holder['held_ms'] ?? 0) / 1000,
            $this->options->lockFailure === 'readonly' ? 'its changes will be dropped' : 'the last to write wins',
        ));
    }

    /** Session ids are credentials: only the beginning is told. */
    private function warn(string $id, string $what): void
    {
        $message = sprintf('The session %s… %s.', substr($id, 0, 6), $what);
        if ($this->logger === null) {
            trigger_error("coatcheck: $message", E_USER_WARNING);
        } else {
            $this->logger->warning($message);
        }
    }
}
