<?php

declare(strict_types=1);

namespace Coatcheck\Client;

use Coatcheck\Client\Exception\ProtocolException;

/**
 * What openSession() brings.
 */
final class OpenedSession
{
    /**
     * @param string $data empty when there is no record
     * @param bool $isFound was there a record?
     * @param bool $isLocked does this token hold the lock?
     * @param int $fence to be given to commitSession()
     * @param float $waitedSeconds how long the daemon waited for the lock
     * @param array<string, mixed>|null $holder who holds the lock when it is not ours: pid, sapi, script, held_ms, fence
     */
    private function __construct(
        public readonly string $data,
        public readonly bool $isFound,
        public readonly bool $isLocked,
        public readonly int $fence,
        public readonly float $waitedSeconds,
        public readonly ?array $holder,
    ) {
    }

    /** @internal */
    public static function from(mixed $answer, string $socket): self
    {
        if (
            !is_array($answer) || !is_bool($answer['locked'] ?? null) || !is_bool($answer['found'] ?? null)
            || !is_int($answer['fence'] ?? null) || !is_string($answer['data'] ?? null)
        ) {
            throw ProtocolException::because(
                "coatcheck at $socket: session.open: the answer lacks locked, found, fence or data"
            );
        }
        return new self(
            $answer['data'],
            $answer['found'],
            $answer['locked'],
            $answer['fence'],
            (int) ($answer['waited_ms'] ?? 0) / 1000,
            is_array($answer['holder'] ?? null) ? $answer['holder'] : null,
        );
    }
}
