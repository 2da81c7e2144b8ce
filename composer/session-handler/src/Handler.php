<?php

declare(strict_types=1);

namespace Coatcheck\Session;

use Coatcheck\Client\Client;
use Coatcheck\Client\Exception\CoatcheckException;
use Coatcheck\Client\Exception\RequestFailed;
use Coatcheck\Client\OpenedSession;

/**
 * Keeps $_SESSION by coatcheck on hosts that cannot load the extension.
 *
 * PHP calls, in this order:
 *
 *     open -> [create_sid | validateId] -> read -> ... -> write | updateTimestamp -> close
 *
 * with destroy instead of the write after session_destroy(), with no write at all after session_abort() and
 * read_and_close, and with open a second time but no close before it in session_reset().
 *
 * The daemon is asked twice in a request that locks: read takes the lock and brings the data in one step, the write
 * stores and releases in one step.
 *
 *  - A session that could not be read is never an empty one: read fails, with a warning that says why.
 *  - Each acquisition has a token of its own, kept from before it is sent until its release is confirmed.
 *  - A write carries the fence of its read. What the daemon refuses was not stored; the warning gives the reason, and no
 *    lock is left.
 *  - The lock ends with the process, also when it is killed, and at the latest with the request.
 *  - Only the process that took a lock releases it. A forked child neither releases nor stores.
 *  - Every method may be called again: a second write or close does no harm.
 */
final class Handler implements
    \SessionHandlerInterface,
    \SessionIdInterface,
    \SessionUpdateTimestampHandlerInterface
{
    /** How many fresh ids are tried. A second try means a broken random source. */
    private const SID_ATTEMPTS = 3;

    private ?CurrentSession $session = null;
    private ?Client $client = null;
    private ?Settings $settings = null;

    /** The id that create_sid made last: no session has it. */
    private string $freshId = '';

    /** What validateId or create_sid has asked already, for the read that follows. */
    private OpenedSession|RequestFailed|null $ahead = null;

    /**
     * @param array<string, mixed> $options see Settings
     *
     * @throws CoatcheckException when an option is none
     */
    public function __construct(private readonly array $options = [])
    {
        $this->clientFor(new Settings($options));
    }

    public function open(string $path, string $name): bool
    {
        $this->close(); // of session_reset(), or we would wait for our own lock
        try {
            $settings = Settings::withSavePath($this->options, $path);
            $this->session = new CurrentSession($this->clientFor($settings), $settings);
        } catch (CoatcheckException $problem) {
            Warnings::raise("coatcheck: session.save_path: {$problem->getMessage()}");
            return false;
        }
        return true;
    }

    public function close(): bool
    {
        $this->session?->release();
        $this->session = null;
        $this->ahead = null;
        $this->freshId = '';
        return true;
    }

    public function read(string $id): string|false
    {
        if ($this->session === null || !$this->check($id)) {
            return false;
        }
        $opened = $this->takeAhead($id) ?? $this->openNow($id);
        $settings = $this->session->settings;
        if ($opened instanceof RequestFailed) {
            Warnings::notRead($settings->socket, $id, $opened);
            return false;
        }
        if ($settings->sessionLocking && !$opened->isLocked) {
            Warnings::busy($settings->socket, $id, $opened->waitedSeconds, $opened->holder, $settings->lockFailure);
        }
        return $opened->data;
    }

    public function write(string $id, string $data): bool
    {
        if ($this->session === null || !$this->mayWrite($id)) {
            return false;
        }
        if (!$this->session->is($id)) {
            return $this->writeOther($id, $data);
        }
        if ($this->session->isReadonly()) {
            $this->warn($id, 'is not written', 'another request holds its lock, and the changes of this one are '
                . 'dropped (lock_failure=readonly)');
            return false;
        }
        return $this->commit($this->session, $id, $data);
    }

    public function updateTimestamp(string $id, string $data): bool
    {
        if ($this->session !== null && !$this->session->belongsHere()) {
            return true; // unchanged: the parent keeps it alive
        }
        if ($this->session === null || !$this->mayWrite($id)) {
            return false;
        }
        if (!$this->session->is($id)) {
            return $this->writeOther($id, $data);
        }
        try {
            $isStored = $this->session->commit(null);
        } catch (RequestFailed $failure) {
            Warnings::failed($this->session->settings->socket, $id, 'extended', $failure);
            return false;
        }
        return $isStored || $this->session->isReadonly() || $this->commit($this->session, $id, $data);
    }

    public function destroy(string $id): bool
    {
        if ($this->session === null || !$this->check($id)) {
            return false;
        }
        try {
            $this->session->destroy($id);
        } catch (RequestFailed $failure) {
            Warnings::failed($this->session->settings->socket, $id, 'destroyed', $failure);
            return false;
        }
        return true;
    }

    /** The daemon ends sessions by itself, on time. */
    public function gc(int $max_lifetime): int|false
    {
        return 0;
    }

    public function validateId(string $id): bool
    {
        if ($this->session === null || !self::isValidId($id) || $id === $this->freshId) {
            return false;
        }
        if ($this->ahead !== null && $this->session->is($id)) {
            return true;
        }
        // with a session open, PHP asks for an id that it does not mean to read
        return $this->session->hasId() ? $this->exists($this->session, $id, true) : $this->existsAhead($id);
    }

    public function create_sid(): string // phpcs:ignore PSR1.Methods.CamelCapsMethodName
    {
        for ($attempt = 0; $attempt < self::SID_ATTEMPTS; $attempt++) {
            $id = session_create_id();
            if ($id !== false && ($this->session === null || !$this->exists($this->session, $id, false))) {
                return $this->freshId = $id;
            }
        }
        throw new \RuntimeException('coatcheck: PHP makes session ids that exist already; its random source is broken');
    }

    /**
     * The lock of the current session, as coatcheck_session_info() of the extension has it; null without a session.
     *
     * @return array{locked: bool}|null
     */
    public function info(): ?array
    {
        return $this->session !== null && $this->session->isRead() ? ['locked' => $this->session->isLocked()] : null;
    }

    /** The client for these settings: the one that is there, with its connection, unless they lead elsewhere. */
    private function clientFor(Settings $settings): Client
    {
        if ($this->client === null || !$settings->reachAs($this->settings)) {
            $this->client = Client::connect($settings->socket, $settings->connection);
        }
        $this->settings = $settings;
        return $this->client;
    }

    /**
     * Asks whether the session exists by opening it, since read follows at once: strict mode then costs no further round
     * trip. A lock on an id that no session has is given back.
     */
    private function existsAhead(string $id): bool
    {
        $this->ahead = $this->openNow($id);
        if ($this->ahead instanceof RequestFailed || $this->ahead->isFound) {
            return true;
        }
        $this->ahead = null;
        $this->session->forget();
        return false;
    }

    /**
     * When the daemon cannot be asked, the id is taken as it is and the trouble is kept for read, which follows and fails
     * with it. The other answer would be worse: in strict mode a "no" makes PHP send a new cookie, so that a short outage
     * would log everybody out.
     */
    private function exists(CurrentSession $session, string $id, bool $ifUnknown): bool
    {
        try {
            return $session->exists($id);
        } catch (RequestFailed $failure) {
            $this->ahead = $failure;
            return $ifUnknown;
        }
    }

    private function takeAhead(string $id): OpenedSession|RequestFailed|null
    {
        $ahead = $this->ahead;
        $this->ahead = null;
        return $ahead instanceof RequestFailed || $this->session->is($id) ? $ahead : null;
    }

    private function openNow(string $id): OpenedSession|RequestFailed
    {
        try {
            return $this->session->open($id);
        } catch (RequestFailed $failure) {
            return $failure;
        }
    }

    private function commit(CurrentSession $session, string $id, string $data): bool
    {
        try {
            $session->commit($data);
            return true;
        } catch (RequestFailed $failure) {
            Warnings::failed($session->settings->socket, $id, 'written', $failure);
            return false;
        }
    }

    /**
     * A write for an id that nobody read: its fence is asked for first, without a lock, and beside the current session,
     * which keeps its own.
     */
    private function writeOther(string $id, string $data): bool
    {
        $other = $this->session->sibling();
        try {
            $other->openUnlocked($id);
        } catch (RequestFailed $failure) {
            $this->warn($id, 'is not written', Warnings::cause($other->settings->socket, $failure));
            return false;
        }
        return $this->commit($other, $id, $data);
    }

    /** May this process, in this state, write this session? If not, a warning says why. */
    private function mayWrite(string $id): bool
    {
        if (!$this->check($id)) {
            return false;
        }
        if (!$this->session->belongsHere()) {
            $this->warn($id, 'is not written', 'it belongs to the process that forked this one');
            return false;
        }
        if ($this->session->is($id) && !$this->session->isRead()) {
            $this->warn($id, 'is not written', 'reading it failed before');
            return false;
        }
        return true;
    }

    private function check(string $id): bool
    {
        if (self::isValidId($id)) {
            return true;
        }
        Warnings::raise("coatcheck at {$this->session->settings->socket}: the session id is empty, longer than 256 "
            . 'characters or has characters other than A-Z, a-z, 0-9, "-" and ","; nothing was sent');
        return false;
    }

    private function warn(string $id, string $what, string $why): void
    {
        Warnings::session($this->session->settings->socket, $id, $what, $why);
    }

    /** The ids of PHP's own files handler. */
    private static function isValidId(string $id): bool
    {
        return preg_match('/^[A-Za-z0-9,-]{1,256}$/D', $id) === 1;
    }
}
