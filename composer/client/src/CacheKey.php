<?php

declare(strict_types=1);

namespace Coatcheck\Client;

use Coatcheck\Client\Exception\InvalidCacheArgument;

/**
 * What PSR-16 takes as a key.
 *
 * @internal
 */
final class CacheKey
{
    private const RESERVED = '{}()/\\@:';
    private const MAX_LENGTH = 65_535;

    public static function check(mixed $key): string
    {
        if (!is_string($key)) {
            throw new InvalidCacheArgument('a cache key must be a string, not ' . get_debug_type($key));
        }
        if ($key === '' || strlen($key) > self::MAX_LENGTH) {
            throw new InvalidCacheArgument('a cache key must have 1 to ' . self::MAX_LENGTH . ' bytes');
        }
        if (strpbrk($key, self::RESERVED) !== false) {
            throw new InvalidCacheArgument("the cache key \"$key\" has one of the reserved characters " . self::RESERVED);
        }
        return $key;
    }

    /** @return list<string> */
    public static function checkAll(mixed $keys): array
    {
        if (!is_iterable($keys)) {
            throw new InvalidCacheArgument('cache keys must be an array or Traversable, not ' . get_debug_type($keys));
        }
        $checked = [];
        foreach ($keys as $key) {
            $checked[] = self::check($key);
        }
        return $checked;
    }

    /**
     * Keys with their values. PHP turns a key such as "12" of an array into an integer; here it is one again.
     *
     * @return list<array{string, mixed}>
     */
    public static function pairs(mixed $values): array
    {
        if (!is_iterable($values)) {
            throw new InvalidCacheArgument('cache values must be an array or Traversable, not ' . get_debug_type($values));
        }
        $pairs = [];
        foreach ($values as $key => $value) {
            $pairs[] = [self::check(is_int($key) ? (string) $key : $key), $value];
        }
        return $pairs;
    }
}
