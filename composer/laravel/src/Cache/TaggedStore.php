<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Cache;

use Illuminate\Contracts\Cache\LockProvider;
use Illuminate\Contracts\Cache\Store;

/**
 * The values of a store under some tags. Every operation uses the same key for the same name, counters and many values
 * included, and costs one round trip for the tags' ids besides its own.
 *
 * A value that is stored while its tag is flushed is found to be so and removed by the one who stored it.
 */
final class TaggedStore implements Store, LockProvider
{
    private const NO_EXPIRY = -1;
    private const MISSING = -2;

    public function __construct(private readonly CoatcheckStore $store, private readonly CoatcheckTagSet $tags)
    {
    }

    public function get($key)
    {
        return $this->store->get($this->tags->itemKey((string) $key));
    }

    public function many(array $keys)
    {
        $ids = $this->tags->ids();
        $keyOf = [];
        foreach ($keys as $key) {
            $keyOf[TagIndex::itemKey($ids, (string) $key)] = $key;
        }
        return array_combine($keyOf, $this->store->many(array_keys($keyOf)));
    }

    public function put($key, $value, $seconds)
    {
        return $this->store([$key => $value], Seconds::toLive($seconds));
    }

    public function putMany(array $values, $seconds)
    {
        return $this->store($values, Seconds::toLive($seconds));
    }

    public function forever($key, $value)
    {
        return $this->store([$key => $value], null);
    }

    public function add($key, $value, $seconds)
    {
        return $this->change($key, fn (string $itemKey) => $this->store->add($itemKey, $value, $seconds));
    }

    public function increment($key, $value = 1)
    {
        return $this->change($key, fn (string $itemKey) => $this->store->increment($itemKey, $value));
    }

    public function decrement($key, $value = 1)
    {
        return $this->change($key, fn (string $itemKey) => $this->store->decrement($itemKey, $value));
    }

    public function touch($key, $seconds)
    {
        return $this->change($key, fn (string $itemKey) => $this->store->touch($itemKey, $seconds));
    }

    public function forget($key)
    {
        return $this->remove([$this->tags->itemKey((string) $key)]) > 0;
    }

    /** Removes what has one of the tags, and nothing else. */
    public function flush()
    {
        $this->tags->flush();
        return true;
    }

    public function tags($names)
    {
        return $this->store->tags(is_array($names) ? $names : func_get_args());
    }

    public function lock($name, $seconds = 0, $owner = null)
    {
        return $this->store->lock($name, $seconds, $owner);
    }

    public function restoreLock($name, $owner)
    {
        return $this->store->restoreLock($name, $owner);
    }

    public function getPrefix()
    {
        return $this->store->getPrefix();
    }

    /** @param array<array-key, mixed> $values */
    private function store(array $values, ?float $ttlSeconds): bool
    {
        if ($values === []) {
            return true;
        }
        $ids = $this->tags->ids();
        $ttlMs = $ttlSeconds === null ? null : (int) ceil($ttlSeconds * 1000);
        $calls = $itemKeys = [];
        foreach ($values as $key => $value) {
            $itemKeys[] = $itemKey = TagIndex::itemKey($ids, (string) $key);
            $setting = ['key' => $itemKey, 'value' => $this->store->serialize($value)];
            $ttl = $ttlMs === null ? [] : ['ttl_ms' => $ttlMs];
            $calls[] = ['kv.set', ['bucket' => $this->store->valuesBucket()] + $setting + $ttl];
            array_push($calls, ...TagIndex::entries($itemKey, $ttlMs));
        }
        array_push($calls, ...$this->tags->prolong($ids, $ttlMs), ...$this->tags->lookUp());
        $answers = Requests::sendAll($this->store->client(), $calls);
        $this->removeIfFlushed($itemKeys, $ids, $ids === [] ? [] : array_pop($answers));
        return true;
    }

    /** An operation that leaves the value's expiry to the value; the index follows it. */
    private function change(mixed $key, \Closure $operation): mixed
    {
        $ids = $this->tags->ids();
        $itemKey = TagIndex::itemKey($ids, (string) $key);
        $result = $operation($itemKey);
        if ($result !== false && $ids !== []) {
            $this->followExpiry($itemKey, $ids);
        }
        return $result;
    }

    /** @param non-empty-list<string> $ids */
    private function followExpiry(string $itemKey, array $ids): void
    {
        // The entry is asked first: it was written after the value, so it must not seem to end sooner.
        [$entryMs, $valueMs, $stored] = Requests::sendAll($this->store->client(), [
            ['kv.ttl', ['bucket' => TagIndex::bucket($ids[0]), 'key' => $itemKey]],
            ['kv.ttl', ['bucket' => $this->store->valuesBucket(), 'key' => $itemKey]],
            ...$this->tags->lookUp(),
            ...$this->tags->prolong($ids, 1),
        ]);
        $follows = match ($valueMs) {
            self::MISSING => true,
            self::NO_EXPIRY => $entryMs === self::NO_EXPIRY,
            default => $entryMs >= $valueMs,
        };
        if (!$follows) {
            $ttlMs = $valueMs === self::NO_EXPIRY ? null : max(1, $valueMs);
            $calls = [...TagIndex::entries($itemKey, $ttlMs), ...$this->tags->prolong($ids, $ttlMs)];
            $answers = Requests::sendAll($this->store->client(), [...$calls, ...$this->tags->lookUp()]);
            $stored = array_pop($answers);
        }
        $this->removeIfFlushed([$itemKey], $ids, $stored);
    }

    /**
     * @param non-empty-list<string> $itemKeys
     * @param list<string> $ids under which they were stored
     * @param list<string|null> $stored the answer to the tags' lookUp() after that
     */
    private function removeIfFlushed(array $itemKeys, array $ids, array $stored): void
    {
        if ($this->tags->known($stored) !== $ids) {
            $this->remove($itemKeys);
        }
    }

    /** @param non-empty-list<string> $itemKeys */
    private function remove(array $itemKeys): int
    {
        $removal = TagIndex::removal($this->store->valuesBucket(), $itemKeys);
        $answers = Requests::sendAll($this->store->client(), $removal);
        return array_pop($answers);
    }
}
