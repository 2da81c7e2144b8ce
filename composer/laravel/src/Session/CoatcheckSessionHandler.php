<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Session;

use Coatcheck\Client\Client;
use Coatcheck\Client\Exception\BusyException;
use Coatcheck\Client\Exception\RefusedException;
use Coatcheck\Client\Exception\RequestFailed;
use Coatcheck\Client\OpenedSession;
use Coatcheck\Client\Token;
use Illuminate\Session\ExistenceAwareInterface;
use Psr\Log\LoggerInterface;

/**
 * Sessions with their lock: one request of a session at a time, in two round trips.
 *
 *     StartSession begins     read      takes the lock, waiting in the daemon, and brings the data
 *     StartSession ends       write     saves the data and gives the lock back, in one step
 *     invalidate, regenerate  destroy   deletes the record, refuses those who read it before, gives the lock back
 *     migrate, regenerate     setExists the old id is left behind: gives its lock back
 *     the request is over     end       gives back what is left: the request ended without saving
 *
 * Guarantees:
 * - A read that fails is an exception and never an empty session.
 * - A write is refused when the session was destroyed or given to another request since it was read. Nothing is
 *   overwritten, the response is sent all the same, and the log says why the session was not saved.
 * - The lock of a process that died is free at once.
 *
 * A second save in a request, after the first gave the lock back, is subject to the same rule, and so is a save after the
 * request's end (of a terminating callback).
 */
final class CoatcheckSessionHandler implements \SessionHandlerInterface, ExistenceAwareInterface
{
    /** As many characters of a session's id as others may see. */
    private const SHOWN = 6;

    /** @var array<string, OpenSession> by id */
    private array $open = [];

    /** Did the request end that read them? They are kept until the next one reads, so that a late save can be judged. */
    private bool $isOver = false;

    public function __construct(
        private readonly Client $client,
        private readonly SessionOptions $options,
        private readonly CurrentRequest $request,
        private readonly LoggerInterface $log,
    ) {
    }

    public function open(string $path, string $name): bool
    {
        return true;
    }

    /** Laravel never calls it; session_set_save_handler() does. */
    public function close(): bool
    {
        $this->end();
        return true;
    }

    /**
     * @throws RequestFailed when the daemon could not bring the session
     * @throws BusyException when another request holds the session and lock_failure is `fail`
     */
    public function read(string $id): string
    {
        if ($this->isOver) {
            $this->open = [];
            $this->isOver = false;
        }
        $isReadOnly = $this->request->onlyReadsItsSession();
        $token = $isReadOnly || !$this->options->locks ? '' : $this->tokenFor($id);
        // Known before it is asked for: a grant whose answer is lost is given back at the end of the request.
        $session = $this->open[$id] = new OpenSession($token, $isReadOnly);
        try {
            $opened = $this->ask($id, $token);
        } catch (BusyException $busy) {
            unset($this->open[$id]);
            throw $busy;
        }
        $session->data = $opened->isFound ? $opened->data : null;
        $session->fence = $opened->fence;
        if ($token !== '' && !$opened->isLocked) {
            $this->goOnWithoutLock($id, $session, $opened);
        }
        return $opened->data;
    }

    /** @return bool false when the session was not saved; the log says why */
    public function write(string $id, string $data): bool
    {
        $session = $this->open[$id] ?? null;
        if ($session === null) {
            // An id that was made in this request, or whatever else nobody read: there is no lock to hold.
            $session = new OpenSession('', false);
        }
        if (!$session->isOfThisProcess() || $session->isDestroyed) {
            return false;
        }
        if ($session->isReadOnly) {
            return $this->keepAlive($id, $session);
        }
        if ($this->isSavedAlready($session, $data)) {
            return true;
        }
        return $this->commit($id, $session, $data);
    }

    public function destroy(string $id): bool
    {
        $session = $this->open[$id] ?? new OpenSession('', false);
        $this->client->destroySession($id, $this->usableToken($session), $this->options->prefix);
        $session->isDestroyed = true;
        $session->mayBeLocked = false;
        $this->open[$id] = $session;
        return true;
    }

    /** Expiry is the daemon's job. */
    public function gc(int $lifetimeSeconds): int
    {
        return 0;
    }

    /**
     * Laravel says so when the session goes on under a new id.
     *
     * @param bool $value
     */
    public function setExists($value): static
    {
        if (!$value) {
            $this->release();
        }
        return $this;
    }

    /** The request is over: what it did not save is given back unsaved. */
    public function end(): void
    {
        $this->release();
        if ($this->isOver) { // of a request that read nothing only what it destroyed is here, and would pile up
            $this->open = array_filter($this->open, static fn (OpenSession $session) => $session->fence !== 0);
        }
        $this->isOver = true;
    }

    public function __destruct()
    {
        $this->end();
    }

    /** The same request may read again, as long as it has the lock. */
    private function tokenFor(string $id): string
    {
        $known = $this->open[$id] ?? null;
        return $known !== null && $known->mayBeLocked && $known->isOfThisProcess() ? $known->token : Token::random();
    }

    private function ask(string $id, string $token): OpenedSession
    {
        return $this->client->openSession(
            $id,
            $token,
            $this->options->lockLeaseSeconds,
            $this->options->lockWaitSeconds,
            $this->options->lockFailure,
            $this->options->prefix,
            $this->request->name(),
        );
    }

    private function goOnWithoutLock(string $id, OpenSession $session, OpenedSession $opened): void
    {
        $session->mayBeLocked = false;
        $session->token = '';
        $session->isReadOnly = $this->options->lockFailure === 'readonly';
        $this->log->warning(
            $session->isReadOnly
                ? 'coatcheck: another request holds the session; this one goes on and will not save it'
                : 'coatcheck: another request holds the session; this one goes on without its lock',
            ['session' => self::shown($id), 'waited_s' => $opened->waitedSeconds, 'holder' => $opened->holder],
        );
    }

    /** A request that only reads begins the session's life anew, but makes none. */
    private function keepAlive(string $id, OpenSession $session): bool
    {
        try {
            $this->client->commitSession(
                $id,
                $session->fence,
                null,
                $this->options->lifetimeSeconds,
                prefix: $this->options->prefix,
            );
        } catch (RefusedException) {
            // It was destroyed meanwhile, and this request has nothing to add to it.
        }
        return true;
    }

    /** The second save of a request, without anything new in it. */
    private function isSavedAlready(OpenSession $session, string $data): bool
    {
        return $session->token !== '' && !$session->mayBeLocked && $session->data === $data;
    }

    private function commit(string $id, OpenSession $session, string $data): bool
    {
        try {
            $isUnchanged = $session->data === $data;
            $this->send($id, $session, $isUnchanged ? null : $data) || $this->send($id, $session, $data);
        } catch (RefusedException $refusal) {
            $session->mayBeLocked = false;
            $this->log->error('coatcheck: the session was not saved: ' . $refusal->getMessage(), [
                'session' => self::shown($id),
                'reason' => $refusal->reason(),
            ]);
            return false;
        }
        $session->mayBeLocked = false;
        $session->data = $data;
        return true;
    }

    /** @param string|null $data null when it has not changed @return bool false when there is no record to keep */
    private function send(string $id, OpenSession $session, ?string $data): bool
    {
        return $this->client->commitSession(
            $id,
            $session->fence,
            $data,
            $this->options->lifetimeSeconds,
            $session->token,
            true,
            $this->options->prefix,
        );
    }

    private function release(): void
    {
        foreach ($this->open as $id => $session) {
            $token = $this->usableToken($session);
            if ($token === '') {
                continue;
            }
            try {
                $this->client->releaseSession((string) $id, $token, $this->options->prefix);
            } catch (RequestFailed) {
                // The lock ends with the connection, or with its lease at the latest.
            }
            $session->mayBeLocked = false;
        }
    }

    private function usableToken(OpenSession $session): string
    {
        return $session->mayBeLocked && $session->isOfThisProcess() ? $session->token : '';
    }

    private static function shown(string $id): string
    {
        return substr($id, 0, self::SHOWN) . '…';
    }
}
