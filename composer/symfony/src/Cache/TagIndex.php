<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Cache;

use Coatcheck\Client\Bucket;
use Coatcheck\Client\Exception\RequestFailed;

/**
 * The tags of one pool: for each tag in use a version, a random number, and nothing else. An item remembers the
 * versions of its tags; it counts while they are still the same. So a tag is invalidated by deleting its version, and
 * a version that was evicted or has expired costs a miss and never brings an old item back.
 *
 * The index holds as many keys as there are tags in use, however many items have them. Every key expires: twice
 * the lifetime of the longest-lived item after that item was saved, at the latest.
 *
 * @internal
 */
final class TagIndex
{
    private const VERSION_BYTES = 8;

    public function __construct(private readonly Bucket $bucket)
    {
    }

    /**
     * One round trip.
     *
     * @param list<string> $tags
     * @return array<array-key, string|null> by tag; null when it has no version
     */
    public function versions(array $tags): array
    {
        return $this->bucket->mget($tags);
    }

    /**
     * The versions of tags that items of this lifetime are about to have. A tag without one gets one. One round trip;
     * a second when a tag would not outlive the items.
     *
     * @param list<string> $tags
     * @param int $lifetimeSeconds above 0
     * @return array<array-key, string> by tag
     */
    public function claim(array $tags, int $lifetimeSeconds): array
    {
        if ($tags === []) {
            return [];
        }
        $ttlMs = 2 * $lifetimeSeconds * 1000;
        $calls = $fresh = [];
        foreach ($tags as $i => $tag) {
            $fresh[$i] = random_bytes(self::VERSION_BYTES);
            $calls["set $i"] = ['kv.set', [
                'key' => $tag, 'value' => $fresh[$i], 'nx' => true, 'get' => true, 'ttl_ms' => $ttlMs,
            ]];
            $calls["ttl $i"] = ['kv.ttl', ['key' => $tag]];
        }
        $answers = $this->all($calls);
        $versions = $short = [];
        foreach ($tags as $i => $tag) {
            $versions[$tag] = $answers["set $i"][1] ?? $fresh[$i];
            if ($answers["ttl $i"] < $lifetimeSeconds * 1000) {
                $short[] = ['kv.expire', ['key' => $tag, 'ttl_ms' => $ttlMs]];
            }
        }
        if ($short !== []) {
            $this->all($short);
        }
        return $versions;
    }

    /** @param list<string> $tags */
    public function invalidate(array $tags): void
    {
        $this->bucket->del($tags);
    }

    public function clear(): void
    {
        $this->bucket->flush();
    }

    /**
     * @param array<array-key, array{string, array<string, mixed>}> $calls
     * @return array<array-key, mixed>
     */
    private function all(array $calls): array
    {
        $answers = $this->bucket->pipeline($calls);
        foreach ($answers as $answer) {
            if ($answer instanceof RequestFailed) {
                throw $answer;
            }
        }
        return $answers;
    }
}
