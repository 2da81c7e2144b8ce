<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Cache;

/**
 * By how much a counter changes.
 *
 * @internal
 */
final class Whole
{
    /** @throws \InvalidArgumentException rather than counting less than was asked for */
    public static function number(mixed $value): int
    {
        return match (true) {
            is_int($value) => $value,
            is_numeric($value) && (float) (int) $value === (float) $value => (int) $value,
            default => throw new \InvalidArgumentException(
                'a counter changes by whole numbers, not by ' . (is_scalar($value) ? $value : get_debug_type($value))
            ),
        };
    }
}
