<?php

declare(strict_types=1);

namespace Coatcheck\Client;

use Coatcheck\Client\Exception\InvalidCacheArgument;

/**
 * What PSR-16 takes as a time to live.
 *
 * @internal
 */
final class CacheTtl
{
    /** @return float|null seconds from now, perhaps none or fewer; null for no expiry */
    public static function seconds(mixed $ttl, ?int $default): ?float
    {
        $ttl ??= $default;
        if ($ttl instanceof \DateInterval) {
            $now = new \DateTimeImmutable();
            return (float) ($now->add($ttl)->format('U.u')) - (float) $now->format('U.u');
        }
        if ($ttl !== null && !is_int($ttl)) {
            throw new InvalidCacheArgument('a TTL must be null, int or DateInterval, not ' . get_debug_type($ttl));
        }
        return $ttl;
    }
}
