<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Session;

/**
 * A session as this request knows it.
 *
 * @internal
 */
final class OpenSession
{
    /** The record's data as far as this request knows; null when there is none. */
    public ?string $data = null;

    /** Of the read, or 0 before its answer came. */
    public int $fence = 0;

    /** May the daemon hold the lock for this request? */
    public bool $mayBeLocked;

    public bool $isDestroyed = false;

    /** In which process it was read: a forked child neither saves nor releases what is its parent's. */
    private readonly int $pid;

    /**
     * @param string $token of its lock; empty when there is none
     */
    public function __construct(public string $token, public bool $isReadOnly)
    {
        $this->mayBeLocked = $token !== '';
        $this->pid = (int) getmypid();
    }

    public function isOfThisProcess(): bool
    {
        return $this->pid === getmypid();
    }
}
