<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Cache;

use Coatcheck\Client\Client;
use Symfony\Component\Cache\Adapter\AbstractAdapter;
use Symfony\Component\Cache\Marshaller\DefaultMarshaller;
use Symfony\Component\Cache\Marshaller\MarshallerInterface;
use Symfony\Component\Cache\PruneableInterface;

/**
 * A cache pool in the daemon: many items in one round trip, clear() of a whole pool in constant time, and what expires
 * goes by itself.
 *
 * Each namespace has a bucket of its own. Thus clear() of a pool without a namespace leaves the pools that have
 * one alone.
 */
final class CoatcheckAdapter extends AbstractAdapter implements PruneableInterface
{
    public const DEFAULT_BUCKET = 'cache';

    private readonly ItemBucket $items;

    /**
     * @param int $defaultLifetime in seconds, of items that have none; 0 for no expiry
     * @param string $bucket what the names of this adapter's buckets begin with
     */
    public function __construct(
        Client $client,
        string $namespace = '',
        int $defaultLifetime = 0,
        ?MarshallerInterface $marshaller = null,
        string $bucket = self::DEFAULT_BUCKET,
    ) {
        parent::__construct($namespace, $defaultLifetime);
        $this->items = new ItemBucket($client, $bucket, $namespace, $marshaller ?? new DefaultMarshaller());
    }

    /** Nothing is left to do: the daemon drops what has expired. */
    public function prune(): bool
    {
        return true;
    }

    protected function doFetch(array $ids): iterable
    {
        return $this->items->fetch($ids);
    }

    protected function doHave(string $id): bool
    {
        return $this->items->has($id);
    }

    protected function doClear(string $namespace): bool
    {
        $this->items->clear($namespace);
        return true;
    }

    protected function doDelete(array $ids): bool
    {
        $this->items->delete($ids);
        return true;
    }

    protected function doSave(array $values, int $lifetime): array|bool
    {
        return $this->items->save($values, $lifetime);
    }
}
