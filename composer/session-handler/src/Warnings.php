<?php

declare(strict_types=1);

namespace Coatcheck\Session;

use Coatcheck\Client\Exception\BusyException;
use Coatcheck\Client\Exception\ConnectionException;
use Coatcheck\Client\Exception\RefusedException;
use Coatcheck\Client\Exception\RequestFailed;
use Coatcheck\Client\Exception\TimeoutException;

/**
 * What a handler says when something went wrong: the cause, and what becomes of the session. The words are those of the
 * extension. A session id is a credential: six characters of it are enough to find it in a log.
 *
 * @internal
 */
final class Warnings
{
    private const REFUSALS = [
        'superseded' => 'refused as superseded: the lease of this request ran out and the lock was granted to another '
            . 'request since; nothing was overwritten',
        'destroyed' => 'refused as destroyed: another request destroyed the session after this one had read it; it '
            . 'stays destroyed',
        'forgotten' => 'refused as forgotten: the lock of this request ended so long ago that the daemon no longer knows '
            . 'who came after; nothing was overwritten',
    ];

    private const CONSEQUENCES = [
        Settings::FAIL => 'the session is not started (lock_failure=fail)',
        Settings::READONLY => 'this request goes on without the lock and its changes will be dropped '
            . '(lock_failure=readonly)',
        Settings::UNLOCKED => 'this request goes on without the lock, and the last of the two to write wins '
            . '(lock_failure=unlocked)',
    ];

    public static function raise(string $warning): void
    {
        trigger_error($warning, E_USER_WARNING);
    }

    public static function session(string $socket, string $id, string $what, string $why): void
    {
        self::raise("coatcheck at $socket: session " . substr($id, 0, 6) . "… $what: $why");
    }

    /** A step that failed. Without an answer nobody knows whether it was done. */
    public static function failed(string $socket, string $id, string $step, RequestFailed $failure): void
    {
        $isUnknown = $failure->outcomeIsUnknown()
            && ($failure instanceof ConnectionException || $failure instanceof TimeoutException);
        $what = $isUnknown ? "is perhaps not $step (the outcome is unknown)" : "is not $step";
        $refusal = $failure instanceof RefusedException ? self::REFUSALS[$failure->reason()] ?? null : null;
        self::session($socket, $id, $what, $refusal ?? self::cause($socket, $failure));
    }

    /** The cause of a failure, without the socket, which the warning names itself. */
    public static function cause(string $socket, RequestFailed $failure): string
    {
        $prefix = "coatcheck at $socket: ";
        $message = $failure->getMessage();
        return str_starts_with($message, $prefix) ? substr($message, strlen($prefix)) : $message;
    }

    /**
     * @param array<string, mixed>|null $holder
     */
    public static function busy(
        string $socket,
        string $id,
        float $waitedSeconds,
        ?array $holder,
        string $lockFailure,
    ): void {
        $who = $holder === null ? 'another request holds the lock' : sprintf(
            'pid %d (%s, %s) has held the lock for %.1f s',
            $holder['pid'] ?? 0,
            ($holder['sapi'] ?? '') ?: 'unknown SAPI',
            ($holder['script'] ?? '') ?: 'unknown script',
            ($holder['held_ms'] ?? 0) / 1000,
        );
        $waited = sprintf('is busy after %.1f s of waiting', $waitedSeconds);
        self::session($socket, $id, $waited, "$who; " . self::CONSEQUENCES[$lockFailure]);
    }

    public static function notRead(string $socket, string $id, RequestFailed $failure): void
    {
        if ($failure instanceof BusyException) {
            self::busy($socket, $id, $failure->waitedSeconds(), $failure->holder(), Settings::FAIL);
        } else {
            self::session($socket, $id, 'is not read', self::cause($socket, $failure));
        }
    }
}
