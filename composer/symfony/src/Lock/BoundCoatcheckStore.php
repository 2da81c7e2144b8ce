<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Lock;

use Coatcheck\Client\Client;
use Symfony\Component\Lock\BlockingSharedLockStoreInterface;
use Symfony\Component\Lock\BlockingStoreInterface;
use Symfony\Component\Lock\Key;

/**
 * Locks that belong to this process and request, as those of Symfony's FlockStore do: they need no TTL, as the daemon
 * renews them while the process lives, for at most its setting `lock.max_hold` (10 minutes) since they were last
 * taken or refreshed; and they are free in milliseconds when the process dies. Their keys cannot be serialised.
 */
final class BoundCoatcheckStore implements BlockingStoreInterface, BlockingSharedLockStoreInterface
{
    private readonly Grants $grants;

    /**
     * @param float $lease how many seconds a lock lasts once nobody can renew it any more
     * @param float|null $maxWait how many seconds a blocking acquisition waits; null for no limit
     * @param string $bucket a keyspace of its own for the names of these locks
     */
    public function __construct(
        Client $client,
        private readonly float $lease = 30.0,
        ?float $maxWait = null,
        string $bucket = '',
    ) {
        $this->grants = new Grants($client, self::class, true, $bucket, $maxWait);
    }

    public function save(Key $key): void
    {
        $this->take($key, false, false);
    }

    public function waitAndSave(Key $key): void
    {
        $this->take($key, false, true);
    }

    public function saveRead(Key $key): void
    {
        $this->take($key, true, false);
    }

    public function waitAndSaveRead(Key $key): void
    {
        $this->take($key, true, true);
    }

    /** The lock lasts as long as the process anyway; here `lock.max_hold` begins anew. */
    public function putOffExpiration(Key $key, float $ttl): void
    {
        $this->grants->renew($key, $this->lease);
    }

    public function delete(Key $key): void
    {
        $this->grants->release($key);
    }

    public function exists(Key $key): bool
    {
        return $this->grants->isHeld($key);
    }

    private function take(Key $key, bool $shared, bool $wait): void
    {
        $key->markUnserializable();
        $this->grants->take($key, $this->lease, $shared, $wait);
    }
}
