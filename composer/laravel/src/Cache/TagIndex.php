<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Cache;

/**
 * How tagged values are found again. The key of one names the ids of its tags, and each of these tags has a bucket of
 * its own with that key in it, which lives as long as the value does:
 *
 *     value   laravel:PREFIX          ID1.ID2:KEY
 *     index   laravel-tag:ID1         ID1.ID2:KEY
 *             laravel-tag:ID2         ID1.ID2:KEY
 *     ids     laravel-tags:PREFIX     NAME        is ID
 *
 * So whoever has a key has all the places that speak of it, and removes them together.
 *
 * @internal
 */
final class TagIndex
{
    public static function bucket(string $id): string
    {
        return "laravel-tag:$id";
    }

    /** @param list<string> $ids */
    public static function itemKey(array $ids, string $key): string
    {
        return implode('.', $ids) . ":$key";
    }

    /** @return list<string> */
    public static function idsOf(string $itemKey): array
    {
        $ids = strstr($itemKey, ':', true);
        return $ids === '' || $ids === false ? [] : explode('.', $ids);
    }

    /**
     * The requests that remove values with all that speaks of them; the last answers how many values there were. The
     * index goes first: whoever stores the same value between two of them leaves an entry too many, never one too few.
     *
     * @param non-empty-list<string> $itemKeys
     * @return list<array{string, array<string, mixed>}>
     */
    public static function removal(string $valuesBucket, array $itemKeys): array
    {
        $byId = [];
        foreach ($itemKeys as $itemKey) {
            foreach (self::idsOf($itemKey) as $id) {
                $byId["$id."][] = $itemKey; // the dot keeps PHP from making a number of it
            }
        }
        $calls = [];
        foreach ($byId as $id => $keys) {
            $calls[] = ['kv.del', ['bucket' => self::bucket(rtrim($id, '.')), 'keys' => $keys]];
        }
        $calls[] = ['kv.del', ['bucket' => $valuesBucket, 'keys' => $itemKeys]];
        return $calls;
    }

    /**
     * The requests that enter a value in the index.
     *
     * @param int|null $ttlMs milliseconds; null is no expiry
     * @return list<array{string, array<string, mixed>}>
     */
    public static function entries(string $itemKey, ?int $ttlMs): array
    {
        $ttl = $ttlMs === null ? [] : ['ttl_ms' => $ttlMs];
        return array_map(
            static fn (string $id) => ['kv.set', ['bucket' => self::bucket($id), 'key' => $itemKey, 'value' => ''] + $ttl],
            self::idsOf($itemKey),
        );
    }
}
