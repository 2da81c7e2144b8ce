<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Session;

/**
 * The session that was read last, and neither written nor closed since.
 *
 * @internal
 */
final class CurrentSession
{
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
