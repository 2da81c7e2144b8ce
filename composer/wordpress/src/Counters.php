<?php

declare(strict_types=1);

namespace Coatcheck\WordPress;

/**
 * Numbers as WordPress counts them, where the daemon's own integers do not do: what is no number counts as 0, and nothing
 * goes below 0.
 */
final class Counters
{
    public static function add(mixed $value, int $offset): int|float
    {
        return max(0, (is_numeric($value) ? $value + 0 : 0) + $offset);
    }
}
