<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Session;

/**
 * The session that was read last and not closed since. It stays after its write, so that a second write, as PHP does
 * one when the first was interrupted, comes with the same fence and cannot overwrite who came between.
 *
 * @internal
 */
final class CurrentSession
{
    /** Was its lock given back, or lost? */
    public bool $isReleased = false;

    private readonly int $pid;

    /**
     * @param string $token of its lock; empty when it is not locked
     * @param int $fence to be given with the write
     */
    public function __construct(
        public readonly string $id,
        public readonly string $token,
        public readonly int $fence,
    ) {
        $this->pid = (int) getmypid();
    }

    public function isLocked(): bool
    {
        return $this->token !== '';
    }

    /** False in a process forked from the one that read it. */
    public function isOurs(): bool
    {
        return $this->pid === getmypid();
    }
}
