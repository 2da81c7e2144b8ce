<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Lock;

use Coatcheck\Client\Client;
use Symfony\Component\Lock\BlockingSharedLockStoreInterface;
use Symfony\Component\Lock\BlockingStoreInterface;
use Symfony\Component\Lock\Exception\InvalidTtlException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\Store\ExpiringStoreTrait;

/**
 * Locks that belong to their key alone: they outlive the process that took them until their time is over, and a key
 * that was serialised goes on in another process.
 *
 * Waiting is the daemon's: one request, first in first out, no polling. Readers and the writer are the daemon's
 * too: a sole reader becomes the writer, and a writer a reader, in one step. TTLs have a resolution of a millisecond.
 *
 * A process forked from the one that took a lock does not hold it: neither its copy of the key nor the
 * destructor of its copy of the Lock releases anything.
 */
final class CoatcheckStore implements BlockingStoreInterface, BlockingSharedLockStoreInterface
{
    use ExpiringStoreTrait;

    /**
     * The daemon counts in whole milliseconds, so a lease may begin almost one of them early. Asked for one more,
     * it never ends before the key does.
     */
    private const CLOCK_STEP_SECONDS = 0.001;

    private readonly Grants $grants;

    /**
     * @param float $initialTtl how many seconds a lock lasts until putOffExpiration()
     * @param float|null $maxWait how many seconds a blocking acquisition waits; null for no limit, as in Symfony
     * @param string $bucket a keyspace of its own for the names of these locks
     *
     * @throws InvalidTtlException when $initialTtl is not above 0
     */
    public function __construct(
        Client $client,
        private readonly float $initialTtl = 300.0,
        ?float $maxWait = null,
        string $bucket = '',
    ) {
        self::checkTtl($initialTtl);
        $this->grants = new Grants($client, self::class, false, $bucket, $maxWait);
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

    public function putOffExpiration(Key $key, float $ttl): void
    {
        self::checkTtl($ttl);
        $key->reduceLifetime($ttl);
        $this->grants->renew($key, $ttl + self::CLOCK_STEP_SECONDS);
        $this->checkNotExpired($key);
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
        $spent = $this->grants->take($key, $this->initialTtl + self::CLOCK_STEP_SECONDS, $shared, $wait);
        $key->reduceLifetime($this->initialTtl - $spent);
        $this->checkNotExpired($key);
    }

    private static function checkTtl(float $seconds): void
    {
        if (!($seconds > 0)) {
            throw new InvalidTtlException("a lock must last longer than 0 seconds, not $seconds");
        }
    }
}
