<?php

declare(strict_types=1);

namespace Coatcheck\Client;

use Coatcheck\Client\Exception\CacheFailure;
use Coatcheck\Client\Exception\RequestFailed;
use Psr\SimpleCache\CacheInterface;

/**
 * A PSR-16 cache over the values of one bucket; clear() empties that bucket and nothing else.
 *
 * Integers are stored as digits, so that increment() and other languages can use them; everything else by
 * serialize(). Many keys cost one round trip. A daemon that cannot be asked is a CacheFailure and never a miss.
 *
 * The signatures fit psr/simple-cache 1, 2 and 3.
 */
final class SimpleCache implements CacheInterface
{
    private readonly Serializer $serializer;

    /**
     * @param Bucket $bucket as of Client::bucket()
     * @param int|null $defaultTtlSeconds for values that are set without one; null is no expiry
     * @param bool|list<class-string> $allowedClasses whose objects may be read back, as of unserialize()
     */
    public function __construct(
        private readonly Bucket $bucket,
        private readonly ?int $defaultTtlSeconds = null,
        bool|array $allowedClasses = true,
    ) {
        $this->serializer = new Serializer($allowedClasses);
    }

    /**
     * @param string $key
     */
    public function get($key, $default = null): mixed
    {
        $stored = $this->ask(fn () => $this->bucket->get(CacheKey::check($key)));
        return $this->read($stored, $default);
    }

    /**
     * @param string $key
     * @param int|\DateInterval|null $ttl in seconds
     */
    public function set($key, $value, $ttl = null): bool
    {
        $key = CacheKey::check($key);
        $ttlSeconds = CacheTtl::seconds($ttl, $this->defaultTtlSeconds);
        if ($ttlSeconds !== null && $ttlSeconds <= 0) {
            $this->ask(fn () => $this->bucket->del($key));
            return true;
        }
        return $this->ask(fn () => $this->bucket->set($key, $this->serializer->serialize($value), $ttlSeconds));
    }

    /**
     * @param string $key
     */
    public function delete($key): bool
    {
        $this->ask(fn () => $this->bucket->del(CacheKey::check($key)));
        return true;
    }

    public function clear(): bool
    {
        $this->ask(fn () => $this->bucket->flush());
        return true;
    }

    /**
     * @param iterable<string> $keys
     * @return iterable<string, mixed> an array, unless a key is one such as "12", which an array would make an integer
     */
    public function getMultiple($keys, $default = null): iterable
    {
        $stored = $this->ask(fn () => $this->bucket->mget(CacheKey::checkAll($keys)));
        $values = array_map(fn (?string $value) => $this->read($value, $default), $stored);
        return array_filter(array_keys($values), is_int(...)) === [] ? $values : self::underStrings($values);
    }

    /**
     * @param iterable<array-key, mixed> $values
     * @param int|\DateInterval|null $ttl in seconds
     */
    public function setMultiple($values, $ttl = null): bool
    {
        $stored = [];
        foreach (CacheKey::pairs($values) as [$key, $value]) {
            $stored[$key] = $this->serializer->serialize($value);
        }
        $ttlSeconds = CacheTtl::seconds($ttl, $this->defaultTtlSeconds);
        if ($ttlSeconds !== null && $ttlSeconds <= 0) {
            $this->ask(fn () => $this->bucket->del(array_keys($stored)));
            return true;
        }
        foreach ($this->ask(fn () => $this->bucket->mset($stored, $ttlSeconds)) as $failure) {
            throw CacheFailure::of($failure);
        }
        return true;
    }

    /**
     * @param iterable<string> $keys
     */
    public function deleteMultiple($keys): bool
    {
        $this->ask(fn () => $this->bucket->del(CacheKey::checkAll($keys)));
        return true;
    }

    /**
     * @param string $key
     */
    public function has($key): bool
    {
        return $this->ask(fn () => $this->bucket->exists(CacheKey::check($key))) === 1;
    }

    /**
     * Adds to an integer, in one step; its expiry is kept. Beyond PSR-16.
     *
     * @param float|null $ttlIfNewSeconds the expiry of a key that this call creates
     *
     * @throws CacheFailure when the value is no integer
     */
    public function increment(string $key, int $by = 1, ?float $ttlIfNewSeconds = null): int
    {
        return $this->ask(fn () => $this->bucket->incrBy(CacheKey::check($key), $by, $ttlIfNewSeconds));
    }

    /**
     * @param array<array-key, mixed> $values
     * @return \Generator<string, mixed>
     */
    private static function underStrings(array $values): \Generator
    {
        foreach ($values as $key => $value) {
            yield (string) $key => $value;
        }
    }

    /** What cannot be read back, because its class or its bytes are gone, is a miss. */
    private function read(?string $stored, mixed $default): mixed
    {
        if ($stored === null) {
            return $default;
        }
        try {
            return $this->serializer->unserialize($stored);
        } catch (\UnexpectedValueException) {
            return $default;
        }
    }

    /**
     * @template T
     * @param callable(): T $request
     * @return T
     */
    private function ask(callable $request): mixed
    {
        try {
            return $request();
        } catch (RequestFailed $failure) {
            throw CacheFailure::of($failure);
        }
    }
}
