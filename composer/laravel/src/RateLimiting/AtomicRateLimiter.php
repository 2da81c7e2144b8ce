<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\RateLimiting;

use Coatcheck\Laravel\Cache\CoatcheckStore;
use Coatcheck\Laravel\Cache\Requests;
use Coatcheck\Laravel\Cache\Seconds;
use Coatcheck\Laravel\Cache\Whole;
use Illuminate\Cache\RateLimiter;
use Illuminate\Contracts\Cache\Repository;

/**
 * Laravel's rate limiter with one round trip for each hit: the counter gets its time to live in the step that creates it,
 * so none is left without one and no hit is lost between two steps.
 */
final class AtomicRateLimiter extends RateLimiter
{
    public function __construct(Repository $cache, private readonly CoatcheckStore $store)
    {
        parent::__construct($cache);
    }

    /** Takes over from the limiter that Laravel made, if its counters are in such a store. */
    public static function insteadOf(RateLimiter $limiter): RateLimiter
    {
        $store = $limiter->cache->getStore();
        if ($limiter::class !== RateLimiter::class || !$store instanceof CoatcheckStore) {
            return $limiter;
        }
        $atomic = new self($limiter->cache, $store);
        $atomic->limiters = $limiter->limiters;
        return $atomic;
    }

    public function hit($key, $decaySeconds = 60)
    {
        return $this->increment($key, $decaySeconds);
    }

    /**
     * @param int $decaySeconds the life of a counter that this call creates
     * @return int the hits so far
     */
    public function increment($key, $decaySeconds = 60, $amount = 1)
    {
        $key = $this->cleanRateLimiterKey($key);
        $ttl = ['ttl_ms' => (int) ceil(Seconds::toLive($this->secondsOf($decaySeconds)) * 1000)];
        $bucket = ['bucket' => $this->store->valuesBucket()];
        $availableAt = $this->store->serialize($this->availableAt($decaySeconds));
        return Requests::sendAll($this->store->client(), [
            ['kv.setnx', $bucket + ['key' => "$key:timer", 'value' => $availableAt] + $ttl],
            ['kv.incr_by', $bucket + ['key' => $key, 'delta' => Whole::number($amount)] + $ttl],
        ])[1];
    }

    private function secondsOf(\DateTimeInterface|\DateInterval|int|float|string $decay): int|float
    {
        return is_numeric($decay) ? +$decay : $this->secondsUntil($decay);
    }
}
