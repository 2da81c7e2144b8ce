<?php

declare(strict_types=1);

namespace Coatcheck\Client;

use Coatcheck\Client\Exception\BusyException;
use Coatcheck\Client\Exception\RefusedException;

/**
 * Locks, as objects and as the protocol's plain requests.
 */
trait Locks
{
    /**
     * A lock that belongs to this process and request: renewed by the daemon while the process lives, free in
     * milliseconds when it dies, released when the object goes.
     *
     * @param float $leaseSeconds how long it lasts once the connection has stopped renewing it; at least 0.1
     */
    public function lock(string $name, float $leaseSeconds = 30.0, bool $shared = false, string $bucket = ''): Lock
    {
        return Lock::bound($this, $name, $leaseSeconds, $shared, $bucket);
    }

    /**
     * A lock that belongs to its token alone: it outlives the process that took it until its lease ends, and whoever
     * has the token may renew and release it (see restoreLock). Nobody renews it by itself.
     *
     * @param float|null $leaseSeconds null for no expiry
     */
    public function detachedLock(
        string $name,
        ?float $leaseSeconds,
        bool $shared = false,
        string $bucket = '',
        ?string $token = null,
    ): Lock {
        return Lock::detached($this, $name, $leaseSeconds, $shared, $bucket, $token);
    }

    /** A detached lock that was taken elsewhere, perhaps in another process, by its token. */
    public function restoreLock(
        string $name,
        string $token,
        ?float $leaseSeconds = null,
        bool $shared = false,
        string $bucket = '',
    ): Lock {
        return Lock::restored($this, $name, $token, $leaseSeconds, $shared, $bucket);
    }

    /**
     * Acquires, or waits in the daemon for $waitSeconds. The same token may ask again and gets the same grant; asking
     * with the other value of $shared converts its lock in one step.
     *
     * @param float|null $leaseSeconds null for no expiry
     * @param string|null $script shown to others; the script that runs unless given
     * @return array{fence: int, waited_ms: int}
     *
     * @throws BusyException when someone else holds it
     */
    public function acquireLock(
        string $name,
        string $token,
        ?float $leaseSeconds,
        float $waitSeconds = 0.0,
        bool $bound = false,
        bool $shared = false,
        string $bucket = '',
        ?string $script = null,
    ): array {
        return $this->ask('lock.acquire', self::lockParams($name, $bucket, $token) + array_filter([
            'lease_ms' => Duration::lifeMs($leaseSeconds, 'leaseSeconds'),
            'wait_ms' => Duration::waitMs($waitSeconds, 'waitSeconds'),
            'bound' => $bound,
            'shared' => $shared,
            'script' => Script::name($script),
        ]));
    }

    /**
     * Begins the lease anew.
     *
     * @param float|null $leaseSeconds null for no expiry
     * @return int the fence
     *
     * @throws RefusedException when this token does not hold the lock (reason not_holder)
     */
    public function renewLock(string $name, string $token, ?float $leaseSeconds, string $bucket = ''): int
    {
        $lease = Duration::lifeMs($leaseSeconds, 'leaseSeconds') ?? 0;
        return $this->ask('lock.renew', self::lockParams($name, $bucket, $token) + ['lease_ms' => $lease])['fence'];
    }

    /** @return bool did this token hold it? */
    public function releaseLock(string $name, string $token, string $bucket = ''): bool
    {
        return $this->ask('lock.release', self::lockParams($name, $bucket, $token));
    }

    /** Ends whoever's lease it is. @return bool was it held? */
    public function forceReleaseLock(string $name, string $bucket = ''): bool
    {
        return $this->ask('lock.force_release', self::lockParams($name, $bucket));
    }

    /**
     * @return array{shared: bool, owned: bool, waiters: int, holders: list<array<string, mixed>>}|null null when nobody
     *     holds it; owned says whether $token does
     */
    public function lockInfo(string $name, string $token = '', string $bucket = ''): ?array
    {
        return $this->ask('lock.info', self::lockParams($name, $bucket, $token));
    }

    /**
     * The held locks of a bucket whose name begins with $prefix, in no particular order.
     *
     * @return list<array{name: string, shared: bool, holders: list<array<string, mixed>>}>
     */
    public function lockList(string $prefix = '', int $limit = 1000, string $bucket = ''): array
    {
        return $this->ask('lock.list', array_filter(['prefix' => $prefix, 'bucket' => $bucket], 'strlen')
            + ['limit' => $limit]);
    }

    /** @return array<string, string> */
    private static function lockParams(string $name, string $bucket, string $token = ''): array
    {
        return ['name' => $name]
            + ($bucket === '' ? [] : ['bucket' => $bucket])
            + ($token === '' ? [] : ['token' => $token]);
    }
}
