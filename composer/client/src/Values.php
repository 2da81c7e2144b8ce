<?php

declare(strict_types=1);

namespace Coatcheck\Client;

use Coatcheck\Client\Exception\RequestFailed;

/**
 * The commands on the values of one bucket. Values are binary strings, keys have 1 to 65,535 bytes.
 *
 * A miss is null or false and never a failure; a failure is always an exception (RequestFailed, one class per
 * failure) and never a miss. Times are in seconds, parts of one are allowed; null is no expiry.
 */
trait Values
{
    /** @return string|null null when the key is missing */
    public function get(string $key): ?string
    {
        return $this->ask('kv.get', ['key' => $key]);
    }

    /**
     * Many values in one round trip.
     *
     * @param array<array-key, string|int> $keys
     * @return array<array-key, string|null> every asked key, in the order asked; null when missing. As in every PHP
     *     array, a key such as "12" is the integer 12
     */
    public function mget(array $keys): array
    {
        if ($keys === []) {
            return [];
        }
        $names = self::names($keys);
        return array_combine($names, array_merge(...$this->askInParts('kv.mget', $names)));
    }

    /**
     * Sets a value. The key's earlier expiry is dropped unless $keepTtl.
     *
     * @param bool $nx only when the key is missing
     * @param bool $xx only when the key exists
     * @param string|null $ifEqual only when the value is exactly this; at most one of the three
     * @return bool was it set?
     */
    public function set(
        string $key,
        string $value,
        ?float $ttlSeconds = null,
        bool $nx = false,
        bool $xx = false,
        ?string $ifEqual = null,
        bool $keepTtl = false,
    ): bool {
        return $this->ask('kv.set', self::setting($key, $value, $ttlSeconds, $nx, $xx, $ifEqual, $keepTtl));
    }

    /**
     * Sets a value as set() does and returns the one before, in one step.
     *
     * @return array{bool, string|null} was it set, and the value before or null
     */
    public function getSet(
        string $key,
        string $value,
        ?float $ttlSeconds = null,
        bool $nx = false,
        bool $xx = false,
        ?string $ifEqual = null,
        bool $keepTtl = false,
    ): array {
        $setting = self::setting($key, $value, $ttlSeconds, $nx, $xx, $ifEqual, $keepTtl);
        return $this->ask('kv.set', $setting + ['get' => true]);
    }

    /**
     * Sets many values in one round trip, each on its own: some may be set although others failed.
     *
     * @param array<array-key, string> $values
     * @return array<array-key, RequestFailed> why those that were not set were not, by their key; empty when all were
     */
    public function mset(array $values, ?float $ttlSeconds = null): array
    {
        $calls = [];
        foreach ($values as $key => $value) {
            $calls[$key] = ['kv.set', self::setting((string) $key, $value, $ttlSeconds)];
        }
        return array_filter($this->askMany($calls), static fn ($answer) => $answer instanceof RequestFailed);
    }

    /** Sets a value when the key is missing. @return bool was it set? */
    public function setnx(string $key, string $value, ?float $ttlSeconds = null): bool
    {
        return $this->ask('kv.setnx', ['key' => $key, 'value' => $value, ...self::ttlParam($ttlSeconds)]);
    }

    /**
     * @param string|array<array-key, string|int> $keys one or many, in one round trip
     * @return int how many there were
     */
    public function del(string|array $keys): int
    {
        return is_string($keys)
            ? $this->ask('kv.del', ['key' => $keys])
            : array_sum($this->askInParts('kv.del', self::names($keys)));
    }

    /** Deletes the key if its value is exactly this, in one step; an expired one never is. @return bool was it? */
    public function delIfEqual(string $key, string $value): bool
    {
        return $this->ask('kv.del_if_eq', ['key' => $key, 'value' => $value]);
    }

    /** Sets when the key expires. @return bool false when it is missing */
    public function expire(string $key, float $ttlSeconds): bool
    {
        return $this->ask('kv.expire', ['key' => $key, ...self::ttlParam($ttlSeconds)]);
    }

    /** Sets when the key expires if its value is exactly this, in one step. @return bool was it? */
    public function expireIfEqual(string $key, string $value, float $ttlSeconds): bool
    {
        return $this->ask('kv.expire_if_eq', ['key' => $key, 'value' => $value, ...self::ttlParam($ttlSeconds)]);
    }

    /** Takes the key's expiry away. @return bool had it one? */
    public function persist(string $key): bool
    {
        return $this->ask('kv.persist', ['key' => $key]);
    }

    /** @return int how many milliseconds the key has left; -1 when it has no expiry, -2 when it is missing */
    public function ttlMs(string $key): int
    {
        return $this->ask('kv.ttl', ['key' => $key]);
    }

    /**
     * Adds to a decimal 64-bit integer, in one step. The key's expiry is kept.
     *
     * @param float|null $ttlIfNewSeconds the expiry of a key that this call creates
     * @param bool $create a missing key counts as 0; otherwise the answer is null
     * @param int|null $floor the least number that is left
     * @return int|null the new number; null when the key is missing and $create is false
     */
    public function incrBy(
        string $key,
        int $delta = 1,
        ?float $ttlIfNewSeconds = null,
        bool $create = true,
        ?int $floor = null,
    ): ?int {
        $params = ['key' => $key, 'delta' => $delta, ...self::ttlParam($ttlIfNewSeconds, 'ttlIfNewSeconds')];
        $params += $create ? [] : ['missing' => 'fail'];
        return $this->ask('kv.incr_by', $params + ($floor === null ? [] : ['floor' => $floor]));
    }

    /** Appends to the value; a missing key counts as empty. @return int the new length in bytes */
    public function append(string $key, string $value): int
    {
        return $this->ask('kv.append', ['key' => $key, 'value' => $value]);
    }

    /** Returns the value and deletes the key, in one step. */
    public function getDel(string $key): ?string
    {
        return $this->ask('kv.getdel', ['key' => $key]);
    }

    /**
     * @param string|array<array-key, string|int> $keys one or many, in one round trip
     * @return int how many of them there are
     */
    public function exists(string|array $keys): int
    {
        return is_string($keys)
            ? $this->ask('kv.exists', ['key' => $keys])
            : array_sum($this->askInParts('kv.exists', self::names($keys)));
    }

    /** @return int the length of the value in bytes; 0 when the key is missing */
    public function strlen(string $key): int
    {
        return $this->ask('kv.strlen', ['key' => $key]);
    }

    /**
     * One step of a walk over the keys that begin with $prefix. A walk from cursor 0 until the cursor is 0 again
     * brings every key that exists all the while, and others perhaps.
     *
     * @return array{int, list<string>} the next cursor, and keys
     */
    public function scan(string $prefix = '', int $cursor = 0, int $count = 1000): array
    {
        return $this->ask('kv.scan', ['prefix' => $prefix, 'cursor' => $cursor, 'count' => $count]);
    }

    /**
     * The keys that begin with $prefix, fetched by scan() as they are used.
     *
     * @return \Generator<int, string>
     */
    public function keys(string $prefix = '', int $count = 1000): \Generator
    {
        $cursor = 0;
        do {
            [$cursor, $keys] = $this->scan($prefix, $cursor, $count);
            foreach ($keys as $key) {
                yield $key;
            }
        } while ($cursor !== 0);
    }

    /** Empties the bucket, in constant time. Other buckets, sessions and locks stay. */
    public function flush(): void
    {
        $this->ask('kv.flush', []);
    }

    /**
     * Waits until the key is next written, deleted or expires.
     *
     * @param int $lastVersion the version that is known; 0 is answered at once
     * @return array{value: string|null, version: int}|null null when the time is up
     */
    public function wait(string $key, int $lastVersion, float $timeoutSeconds): ?array
    {
        $timeoutMs = Duration::waitMs($timeoutSeconds, 'timeoutSeconds');
        return $this->ask('kv.wait', ['key' => $key, 'version' => $lastVersion, 'timeout_ms' => $timeoutMs]);
    }

    /** @param array<string, mixed> $params */
    abstract private function ask(string $method, array $params): mixed;

    /**
     * @param array<array-key, array{string, array<string, mixed>}> $calls
     * @return array<array-key, mixed>
     */
    abstract private function askMany(array $calls): array;

    /** @return array<string, mixed> */
    private static function setting(
        string $key,
        string $value,
        ?float $ttlSeconds,
        bool $nx = false,
        bool $xx = false,
        ?string $ifEqual = null,
        bool $keepTtl = false,
    ): array {
        return ['key' => $key, 'value' => $value]
            + self::ttlParam($ttlSeconds)
            + ($nx ? ['nx' => true] : [])
            + ($xx ? ['xx' => true] : [])
            + ($ifEqual === null ? [] : ['ifeq' => $ifEqual])
            + ($keepTtl ? ['keepttl' => true] : []);
    }

    /** @return array{ttl_ms?: int} */
    private static function ttlParam(?float $seconds, string $what = 'ttlSeconds'): array
    {
        return $seconds === null ? [] : ['ttl_ms' => Duration::lifeMs($seconds, $what)];
    }

    /**
     * Asks of all keys, still in one round trip when there are more than one request takes.
     *
     * @param list<string> $names
     * @return list<mixed> the answers for each part
     */
    private function askInParts(string $method, array $names): array
    {
        if (count($names) <= self::keysAtOnce()) {
            return $names === [] ? [] : [$this->ask($method, ['keys' => $names])];
        }
        $calls = [];
        foreach (array_chunk($names, self::keysAtOnce()) as $part) {
            $calls[] = [$method, ['keys' => $part]];
        }
        $answers = $this->askMany($calls);
        foreach ($answers as $answer) {
            if ($answer instanceof RequestFailed) {
                throw $answer;
            }
        }
        return $answers;
    }

    /** As many as the daemon takes in one request. */
    private static function keysAtOnce(): int
    {
        return 16_384;
    }

    /**
     * @param array<array-key, string|int> $keys
     * @return list<string>
     */
    private static function names(array $keys): array
    {
        return array_map(strval(...), array_values($keys));
    }
}
