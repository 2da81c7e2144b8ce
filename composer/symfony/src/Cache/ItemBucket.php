<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Cache;

use Coatcheck\Client\Bucket;
use Coatcheck\Client\Client;
use Coatcheck\Client\Exception\RequestFailed;
use Coatcheck\Client\Exception\TooLargeException;
use Symfony\Component\Cache\Marshaller\MarshallerInterface;

/**
 * The items of one pool. Each namespace has a bucket of its own, so that clearing a pool takes constant time and
 * touches no other.
 *
 * @internal
 */
final class ItemBucket
{
    private const DELETED_AT_ONCE = 1000;

    private readonly Bucket $bucket;
    private readonly string $root;

    /**
     * @param string $bucket what the buckets of all namespaces begin with
     * @param string $namespace of the pool, may be empty
     */
    public function __construct(
        Client $client,
        string $bucket,
        string $namespace,
        private readonly MarshallerInterface $marshaller,
    ) {
        $this->bucket = $client->bucket(self::name($bucket, $namespace));
        $this->root = $namespace === '' ? '' : "$namespace:";
    }

    public static function name(string $bucket, string $namespace): string
    {
        return $namespace === '' ? $bucket : "$bucket:$namespace";
    }

    /**
     * The values of those ids that are there. One round trip, unless all the values together are larger than a frame.
     *
     * A value that cannot be read back is a miss among others; asked for alone it is an exception, so that
     * Symfony logs the reason.
     *
     * @param array<array-key, string> $ids
     * @return array<array-key, mixed>
     */
    public function fetch(array $ids): array
    {
        $values = [];
        foreach ($this->stored($ids) as $id => $stored) {
            try {
                $values[$id] = $this->marshaller->unmarshall($stored);
            } catch (\Exception $unreadable) {
                if (count($ids) === 1) {
                    throw $unreadable;
                }
            }
        }
        return $values;
    }

    public function has(string $id): bool
    {
        return $this->bucket->exists($id) === 1;
    }

    /**
     * Stores in one round trip.
     *
     * @param array<array-key, mixed> $values by id
     * @param int $lifetimeSeconds 0 for no expiry
     * @return list<string> the ids that were not stored
     *
     * @throws RequestFailed when a single value was given and refused, so that Symfony logs the reason
     */
    public function save(array $values, int $lifetimeSeconds): array
    {
        $marshalled = $this->marshaller->marshall($values, $failed);
        $refused = $marshalled === []
            ? []
            : $this->bucket->mset($marshalled, $lifetimeSeconds > 0 ? (float) $lifetimeSeconds : null);
        if (count($values) === 1 && $refused !== []) {
            throw reset($refused);
        }
        return array_map(strval(...), [...array_values($failed ?? []), ...array_keys($refused)]);
    }

    /** @param array<array-key, string> $ids */
    public function delete(array $ids): void
    {
        $this->bucket->del(array_values($ids));
    }

    /**
     * Deletes the items whose id begins so; all of them, in constant time, when that is the whole pool.
     *
     * @param string $prefix the pool's namespace with its separator, and perhaps more
     * @return bool was it the whole pool?
     */
    public function clear(string $prefix): bool
    {
        if ($prefix === $this->root) {
            $this->bucket->flush();
            return true;
        }
        $ids = [];
        foreach ($this->bucket->keys($prefix) as $id) {
            $ids[] = $id;
            if (count($ids) === self::DELETED_AT_ONCE) {
                $this->bucket->del($ids);
                $ids = [];
            }
        }
        $this->bucket->del($ids);
        return false;
    }

    /**
     * @param array<array-key, string> $ids
     * @return array<array-key, string>
     */
    private function stored(array $ids): array
    {
        try {
            return array_filter($this->bucket->mget($ids), is_string(...));
        } catch (TooLargeException $tooLarge) {
            if (count($ids) < 2) {
                throw $tooLarge;
            }
            [$some, $others] = array_chunk($ids, intdiv(count($ids) + 1, 2));
            return $this->stored($some) + $this->stored($others);
        }
    }
}
