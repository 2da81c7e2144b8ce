<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Cache;

use Coatcheck\Client\Bucket;
use Coatcheck\Client\Client;
use Coatcheck\Client\Exception\RefusedException;
use Coatcheck\Client\Exception\RequestFailed;
use Coatcheck\Client\Serializer;
use Illuminate\Cache\TaggableStore;
use Illuminate\Contracts\Cache\LockProvider;

/**
 * Laravel's cache in the daemon.
 *
 * - Each prefix is a bucket of its own: flush() empties it in constant time and touches nobody else's values.
 * - Locks live beside the values, under the same prefix: no flush() and no lack of memory ends one.
 * - Integers are stored as digits, so increment() works on what put() stored and get() answers an int.
 * - A miss is null. A daemon that cannot be asked is an exception (RequestFailed) and never a miss.
 */
final class CoatcheckStore extends TaggableStore implements LockProvider, FlushesLocks
{
    /** As many as the daemon lists at once. */
    private const LOCKS_AT_ONCE = 10_000;

    private readonly Serializer $serializer;

    /**
     * @param bool|list<class-string> $allowedClasses whose objects may be read back, as of unserialize()
     */
    public function __construct(
        private readonly Client $client,
        private string $prefix = '',
        bool|array $allowedClasses = true,
    ) {
        $this->serializer = new Serializer($allowedClasses);
    }

    public function get($key)
    {
        return $this->read($this->values()->get((string) $key));
    }

    /**
     * Many values in one round trip.
     *
     * @param array<array-key, string|int> $keys
     * @return array<array-key, mixed> every asked key; null for a miss
     */
    public function many(array $keys)
    {
        return array_map($this->read(...), $this->values()->mget($keys));
    }

    /**
     * @param int|float $seconds less than one second works; none or fewer count as one
     */
    public function put($key, $value, $seconds)
    {
        return $this->values()->set((string) $key, $this->serialize($value), Seconds::toLive($seconds));
    }

    /**
     * Many values in one round trip.
     *
     * @param array<array-key, mixed> $values
     * @param int|float $seconds
     *
     * @throws RequestFailed of the first that was not stored; the others are
     */
    public function putMany(array $values, $seconds)
    {
        $failures = $this->values()->mset(array_map($this->serialize(...), $values), Seconds::toLive($seconds));
        foreach ($failures as $failure) {
            throw $failure;
        }
        return true;
    }

    /** Stores the value when the key is missing, in one step. @param int|float $seconds */
    public function add($key, $value, $seconds)
    {
        return $this->values()->setnx((string) $key, $this->serialize($value), Seconds::toLive($seconds));
    }

    /**
     * Adds to an integer, in one step; its time to live is kept. A missing key counts as 0 and lives for ever.
     *
     * @throws RefusedException when the value is no integer, or would be none of 64 bits (reason not_integer, overflow)
     */
    public function increment($key, $value = 1)
    {
        return $this->incrementOrCreate((string) $key, Whole::number($value), null);
    }

    public function decrement($key, $value = 1)
    {
        return $this->incrementOrCreate((string) $key, -Whole::number($value), null);
    }

    /**
     * As increment(); a key that this call creates gets its time to live in the same step.
     *
     * @param float|null $ttlIfNewSeconds null lives for ever
     */
    public function incrementOrCreate(string $key, int $by, ?float $ttlIfNewSeconds): int
    {
        try {
            return $this->values()->incrBy($key, $by, $ttlIfNewSeconds);
        } catch (RefusedException $refusal) {
            if ($refusal->reason() !== 'not_integer' || !$this->rewriteAsDigits($key)) {
                throw $refusal;
            }
            return $this->values()->incrBy($key, $by, $ttlIfNewSeconds);
        }
    }

    public function forever($key, $value)
    {
        return $this->values()->set((string) $key, $this->serialize($value));
    }

    /** Begins the value's life anew. @param int|float $seconds @return bool false when it is missing */
    public function touch($key, $seconds)
    {
        return $this->values()->expire((string) $key, Seconds::toLive($seconds));
    }

    public function forget($key)
    {
        return $this->values()->del((string) $key) > 0;
    }

    /** Empties this prefix, tagged values included. Locks, sessions and other prefixes stay. */
    public function flush()
    {
        $tags = $this->client->bucket($this->tagsBucket());
        $calls = [];
        foreach (array_filter($tags->mget(iterator_to_array($tags->keys(), false))) as $tag => $id) {
            $calls[] = ['kv.del_if_eq', ['bucket' => $this->tagsBucket(), 'key' => $tag, 'value' => $id]];
            $calls[] = ['kv.flush', ['bucket' => TagIndex::bucket(CoatcheckTagSet::idIn($id))]];
        }
        $calls[] = ['kv.flush', ['bucket' => $this->valuesBucket()]];
        Requests::sendAll($this->client, $calls);
        return true;
    }

    public function tags($names)
    {
        $tags = new CoatcheckTagSet($this, is_array($names) ? $names : func_get_args());
        return new CoatcheckTaggedCache(new TaggedStore($this, $tags), $tags);
    }

    /**
     * A lock that belongs to its owner's text alone: whoever knows it may release the lock, in any process.
     *
     * @param int|float $seconds 0 for no expiry
     * @param string|null $owner a new secret unless given
     */
    public function lock($name, $seconds = 0, $owner = null)
    {
        return new CoatcheckLock($this->client, $this->valuesBucket(), (string) $name, $seconds, $owner);
    }

    public function restoreLock($name, $owner)
    {
        return $this->lock($name, 0, $owner);
    }

    /** Ends every lock of this prefix, whoever holds it. */
    public function flushLocks(): bool
    {
        do {
            $held = $this->client->lockList('', self::LOCKS_AT_ONCE, $this->valuesBucket());
            Requests::sendAll($this->client, array_map(fn (array $lock): array => [
                'lock.force_release',
                ['bucket' => $this->valuesBucket(), 'name' => $lock['name']],
            ], $held));
        } while (count($held) === self::LOCKS_AT_ONCE);
        return true;
    }

    public function hasSeparateLockStore(): bool
    {
        return true;
    }

    public function getPrefix()
    {
        return $this->prefix;
    }

    /** @param string $prefix names the keyspace from here on */
    public function setPrefix($prefix)
    {
        $this->prefix = (string) $prefix;
    }

    public function client(): Client
    {
        return $this->client;
    }

    /** The name of the bucket that has the values, and of the one that has the locks. */
    public function valuesBucket(): string
    {
        return "laravel:$this->prefix";
    }

    /** The name of the bucket that has the ids of the tags. */
    public function tagsBucket(): string
    {
        return "laravel-tags:$this->prefix";
    }

    /** @internal */
    public function serialize(mixed $value): string
    {
        return $this->serializer->serialize($value);
    }

    /** What cannot be read back, because its class or its bytes are gone, is a miss. */
    private function read(?string $stored): mixed
    {
        try {
            return $stored === null ? null : $this->serializer->unserialize($stored);
        } catch (\UnexpectedValueException) {
            return null;
        }
    }

    /** Stores the text "5" as the number 5, so that increment() works on it as it does on other stores. */
    private function rewriteAsDigits(string $key): bool
    {
        $stored = $this->values()->get($key);
        $value = $this->read($stored);
        if (!is_string($value) || (string) (int) $value !== $value) {
            return false;
        }
        $this->values()->set($key, $value, ifEqual: $stored, keepTtl: true);
        return true;
    }

    private function values(): Bucket
    {
        return $this->client->bucket($this->valuesBucket());
    }
}
