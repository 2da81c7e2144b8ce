<?php

declare(strict_types=1);

namespace Coatcheck\Client\Transport;

use Coatcheck\Client\Exception\ConnectionException;

/**
 * The connection to one socket: opening, sending, receiving, all against deadlines. It knows bytes and frames,
 * not messages.
 *
 * A persistent stream outlives the PHP request that opened it, and this object does not. What the next request must
 * know of the stream is kept where it survives: in the stream's chunk size. A stream with PHP's own size is new, one
 * with READY has said hello and owes no answer, and one that is still BUSY was left in the middle of an exchange (a
 * fatal error, a time limit) and is closed: its next bytes would be someone else's answer.
 *
 * After a fork the child finds the parent's stream here. It closes its own descriptor and says nothing: the daemon
 * would take that for the parent's words.
 *
 * @internal
 */
final class Link
{
    private const READY = 65536;
    private const BUSY = 65537;

    /** [2, "server.end_request", {}] in its frame. */
    private const END_REQUEST = "\0\0\0\x16\x93\x02\xb2server.end_request\x80";

    /** Bytes that a Unix socket always takes at once when nothing else is under way. */
    private const SENT_AT_ONCE = 65536;

    private const PAUSE_MICROSECONDS = 10_000;

    /** Numbers of the system's errors, on Linux and on BSD. */
    private const MISSING = [2];
    private const FORBIDDEN = [1, 13];
    private const NOBODY_LISTENS = [111, 61];
    private const INTERRUPTED = [4];
    private const QUEUE_IS_FULL = [11, 35];

    /** Has the daemon been greeted on this connection? */
    public bool $isGreeted = false;

    /** The largest frame that the daemon takes, in bytes; null until it has said so. */
    public ?int $maxFrame = null;

    /** Bytes that are to go out before the next request. */
    public string $prologue = '';

    /** @var array<string, true> tokens of locks bound to this connection whose release is not confirmed */
    public array $bound = [];

    /** @var resource|null */
    private $stream = null;
    private int $nextId;
    private int $pid = 0;
    private string $received = '';

    /** How many of the received bytes were handed out already. */
    private int $taken = 0;
    private bool $wasConnected = false;
    private bool $isBusy = false;

    /** Did more come back than can have been asked for? */
    private bool $isFlooded = false;

    public function __construct(private readonly StreamOptions $options)
    {
        // Not from 1: should an answer to an earlier request of this process ever be left, it fits to none of ours.
        $this->nextId = random_int(1, 0x3fffffff);
    }

    /** The id of the first of so many requests. */
    public function takeIds(int $count): int
    {
        $first = $this->nextId > 0x7fffffff - $count ? 1 : $this->nextId;
        $this->nextId = $first + $count;
        return $first;
    }

    /**
     * Is there a connection of this process that owes no answer? One that is not so is dropped.
     */
    public function isAlive(): bool
    {
        if ($this->stream === null) {
            return false;
        }
        if (is_resource($this->stream) && $this->pid === getmypid() && !$this->isBusy && $this->received === '') {
            return true;
        }
        $this->close();
        return false;
    }

    /**
     * Connects, or takes up the persistent connection of an earlier PHP request. A missing daemon that this process
     * knew before is taken for one that restarts, and tried again until the time limit; an absent one costs nobody a
     * second.
     *
     * @throws ConnectionException when there is no daemon to connect to
     */
    public function open(): void
    {
        $deadline = Deadline::in($this->options->connectTimeoutSeconds);
        while (true) {
            $stream = $this->tryToConnect($cause, $problem);
            if ($stream !== null) {
                $this->adopt($stream);
                return;
            }
            $isPassing = in_array($cause, [...self::QUEUE_IS_FULL, ...self::INTERRUPTED], true)
                || ($this->wasConnected && in_array($cause, [...self::MISSING, ...self::NOBODY_LISTENS], true));
            if (!$isPassing || $deadline->isOver()) {
                $this->wasConnected = false;
                throw ConnectionException::because($this->describe($cause, $problem));
            }
            usleep(self::PAUSE_MICROSECONDS);
        }
    }

    /** Closes without a word. */
    public function close(): void
    {
        if (is_resource($this->stream)) {
            fclose($this->stream);
        }
        $this->stream = null;
        $this->received = '';
        $this->taken = 0;
        $this->isBusy = false;
        $this->isFlooded = false;
        $this->isGreeted = false;
        $this->maxFrame = null;
        $this->prologue = '';
        $this->bound = [];
    }

    public function pause(): void
    {
        usleep(self::PAUSE_MICROSECONDS);
    }

    /** From here on answers are due. */
    public function beginExchange(): void
    {
        $this->isBusy = true;
        stream_set_chunk_size($this->stream, self::BUSY);
    }

    /** Every answer came. */
    public function endExchange(): void
    {
        $this->isBusy = false;
        stream_set_chunk_size($this->stream, self::READY);
    }

    /**
     * Sends all bytes, or as many as go out before the connection breaks, the time is up or more comes back than so many
     * answers of so many bytes; which of them it was is found by receiving.
     *
     * @return int how many bytes went out
     */
    public function send(string $bytes, int $answers, int $limit, Deadline $deadline): int
    {
        $length = strlen($bytes);
        if ($length > self::SENT_AT_ONCE) {
            return $this->sendWhileReceiving($bytes, $answers, $limit, $deadline);
        }
        $this->limit($deadline);
        $sent = (int) @fwrite($this->stream, $bytes);
        return $sent < $length && $sent > 0
            ? $sent + $this->sendWhileReceiving(substr($bytes, $sent), $answers, $limit, $deadline)
            : $sent;
    }

    /** Has the daemon release what is bound to this connection, without waiting for anything. */
    public function endRequest(): void
    {
        if ($this->bound === []) {
            return;
        }
        $this->bound = [];
        if ($this->isAlive() && @fwrite($this->stream, self::END_REQUEST) !== strlen(self::END_REQUEST)) {
            $this->close();
        }
    }

    /**
     * The body of the next frame. One fread takes a whole answer of common size, length and all.
     *
     * @throws Broken when the connection ends, the time is up or the frame is longer than $limit bytes
     */
    public function receive(int $limit, Deadline $deadline): string
    {
        if ($this->isFlooded) {
            throw Broken::nonsense('more came back than was asked for');
        }
        while (true) {
            $have = strlen($this->received) - $this->taken;
            if ($have >= 4) {
                $length = unpack('N', $this->received, $this->taken)[1];
                if (!self::canBe($length, $limit)) {
                    throw Broken::nonsense('the answer claims a length that cannot be');
                }
                if ($have >= 4 + $length) {
                    $body = substr($this->received, $this->taken + 4, $length);
                    $this->taken += 4 + $length;
                    if ($have === 4 + $length) {
                        $this->received = '';
                        $this->taken = 0;
                    }
                    return $body;
                }
            }
            $this->receiveSome($deadline);
        }
    }

    private static function canBe(int $length, int $limit): bool
    {
        return $length > 0 && $length <= $limit;
    }

    private function receiveSome(Deadline $deadline): void
    {
        $this->limit($deadline);
        $bytes = @fread($this->stream, self::READY);
        if ($bytes !== false && $bytes !== '') {
            // less than a frame is left, so a long answer to a pipeline is not copied for each of its parts
            if ($this->taken > 0) {
                $this->received = substr($this->received, $this->taken);
                $this->taken = 0;
            }
            $this->received .= $bytes;
            return;
        }
        $timedOut = stream_get_meta_data($this->stream)['timed_out'];
        throw $timedOut ? Broken::timedOut() : Broken::closed();
    }

    /** The stream's own time limit, for the next fread or fwrite. */
    private function limit(Deadline $deadline): void
    {
        $left = $deadline->leftMicroseconds();
        if ($left === 0) {
            throw Broken::timedOut();
        }
        stream_set_timeout($this->stream, intdiv($left, 1_000_000), $left % 1_000_000);
    }

    /** Answers are taken in while requests still wait to go out, or both sides could wait for ever. */
    private function sendWhileReceiving(string $bytes, int $answers, int $limit, Deadline $deadline): int
    {
        stream_set_blocking($this->stream, false);
        try {
            return $this->sendInParts($bytes, $answers, $limit, $deadline);
        } finally {
            if (is_resource($this->stream)) {
                stream_set_blocking($this->stream, true);
            }
        }
    }

    private function sendInParts(string $bytes, int $answers, int $limit, Deadline $deadline): int
    {
        $length = strlen($bytes);
        $sent = 0;
        $frameAt = 0; // where in the received bytes the next frame begins
        while ($sent < $length && !$deadline->isOver()) {
            $part = @fwrite($this->stream, substr($bytes, $sent, self::SENT_AT_ONCE));
            if ($part === false && feof($this->stream)) {
                return $sent;
            }
            $sent += (int) $part;
            $this->received .= (string) @fread($this->stream, self::READY);
            while (!$this->isFlooded && strlen($this->received) - $frameAt >= 4) {
                $size = unpack('N', $this->received, $frameAt)[1];
                $this->isFlooded = --$answers < 0 || !self::canBe($size, $limit);
                $frameAt += 4 + $size;
            }
            if ($this->isFlooded) {
                return $sent;
            }
            if ((int) $part === 0 && $sent < $length) {
                $this->awaitRoom($deadline);
            }
        }
        return $sent;
    }

    private function awaitRoom(Deadline $deadline): void
    {
        $left = $deadline->leftMicroseconds();
        $read = $write = [$this->stream];
        $except = null;
        if (@stream_select($read, $write, $except, intdiv($left, 1_000_000), $left % 1_000_000) === false) {
            usleep(1_000); // a signal, or a descriptor above what select() knows
        }
    }

    /**
     * @return resource|null
     */
    private function tryToConnect(?int &$cause, ?string &$problem)
    {
        $flags = STREAM_CLIENT_CONNECT | ($this->options->keepsConnection() ? STREAM_CLIENT_PERSISTENT : 0);
        $stream = @stream_socket_client(
            'unix://' . $this->options->socket,
            $cause,
            $problem,
            $this->options->connectTimeoutSeconds,
            $flags,
        );
        return $stream === false ? null : $stream;
    }

    /**
     * @param resource $stream
     */
    private function adopt($stream): void
    {
        $mark = stream_set_chunk_size($stream, self::BUSY);
        if ($mark === self::BUSY) {
            fclose($stream);
            $this->open();
            return;
        }
        stream_set_chunk_size($stream, self::READY);
        stream_set_blocking($stream, true);
        $this->stream = $stream;
        $this->pid = (int) getmypid();
        $this->wasConnected = true;
        $this->isGreeted = $mark === self::READY;
        if ($this->isGreeted) { // what an earlier PHP request forgot to release ends at the latest now
            $this->prologue = self::END_REQUEST;
        }
    }

    private function describe(?int $cause, ?string $problem): string
    {
        return "coatcheck at {$this->options->socket}: " . match (true) {
            in_array($cause, self::MISSING, true) => 'there is no such socket; is the daemon running '
                . '(coatcheck serve), and is this its socket?',
            in_array($cause, self::FORBIDDEN, true) => 'permission denied; this user must be in the group of the '
                . 'socket and may need to enter its directory',
            in_array($cause, self::NOBODY_LISTENS, true) => 'connection refused; the socket is there but no daemon '
                . 'listens on it: start it (coatcheck serve)',
            in_array($cause, self::QUEUE_IS_FULL, true) => sprintf(
                'the daemon did not accept the connection within %g s; it hangs or is overloaded',
                $this->options->connectTimeoutSeconds,
            ),
            default => "cannot connect: $problem",
        };
    }
}
