<?php

declare(strict_types=1);

namespace Coatcheck\Client\Exception;

/**
 * Someone else holds the lock, and the wait is over or the queue is full (reason() wait_over, queue_full).
 */
final class BusyException extends \Coatcheck\BusyException implements RequestFailed
{
    use Failure;

    /** @return array<string, mixed>|null who holds it: pid, sapi, script, held_ms, fence */
    public function holder(): ?array
    {
        $holder = $this->details['holder'] ?? null;
        return is_array($holder) ? $holder : null;
    }

    /** How long the daemon waited for it, in seconds. */
    public function waitedSeconds(): float
    {
        return (int) ($this->details['waited_ms'] ?? 0) / 1000;
    }
}
