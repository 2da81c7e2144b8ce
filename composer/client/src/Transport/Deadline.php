<?php

declare(strict_types=1);

namespace Coatcheck\Client\Transport;

/**
 * A moment of the monotonic clock.
 *
 * @internal
 */
final class Deadline
{
    private function __construct(private readonly int $atNs)
    {
    }

    public static function in(float $seconds): self
    {
        return new self(hrtime(true) + (int) ($seconds * 1e9));
    }

    public function isOver(): bool
    {
        return hrtime(true) >= $this->atNs;
    }

    /** Never negative. */
    public function leftMicroseconds(): int
    {
        return max(0, intdiv($this->atNs - hrtime(true), 1000));
    }
}
