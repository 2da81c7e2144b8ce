<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Cache;

/**
 * Times to live as Laravel gives them.
 *
 * @internal
 */
final class Seconds
{
    /** Of a value: none or fewer count as one, as on Laravel's other stores. */
    public static function toLive(int|float|string $seconds): float
    {
        return $seconds > 0 ? (float) $seconds : 1.0;
    }

    /** Of a lock: none or fewer are no expiry, which is null. */
    public static function ofLease(int|float|string|null $seconds): ?float
    {
        return $seconds > 0 ? (float) $seconds : null;
    }
}
