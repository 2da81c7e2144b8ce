<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Cache;

use Coatcheck\Client\Client;
use Symfony\Component\Cache\Adapter\AbstractTagAwareAdapter;
use Symfony\Component\Cache\Marshaller\DefaultMarshaller;
use Symfony\Component\Cache\Marshaller\MarshallerInterface;
use Symfony\Component\Cache\PruneableInterface;

/**
 * A cache pool whose items have tags. invalidateTags() takes one round trip, however many items there are, and holds
 * for every process at once. Reading takes one round trip, two when there are tagged items among the hits.
 *
 * The index of tags holds one small key for each tag and cannot grow without bound (TagIndex). It may be evicted like
 * any other value: that costs misses.
 *
 * No item lives longer than $maxLifetime, as its tags must outlive it and should not live for ever.
 */
final class CoatcheckTagAwareAdapter extends AbstractTagAwareAdapter implements PruneableInterface
{
    /** 100 days, in seconds. */
    public const DEFAULT_MAX_LIFETIME = 8_640_000;

    private readonly ItemBucket $items;
    private readonly TagIndex $tags;

    /**
     * @param int $defaultLifetime in seconds, of items that have none; 0 for $maxLifetime
     * @param string $bucket what the names of this adapter's buckets begin with
     * @param int $maxLifetime in seconds
     */
    public function __construct(
        Client $client,
        private readonly string $poolNamespace = '',
        int $defaultLifetime = 0,
        ?MarshallerInterface $marshaller = null,
        string $bucket = CoatcheckAdapter::DEFAULT_BUCKET,
        private readonly int $maxLifetime = self::DEFAULT_MAX_LIFETIME,
    ) {
        parent::__construct($poolNamespace, $defaultLifetime);
        $this->items = new ItemBucket($client, $bucket, $poolNamespace, $marshaller ?? new DefaultMarshaller());
        // No namespace can contain an @, so this is the bucket of no pool.
        $this->tags = new TagIndex($client->bucket(ItemBucket::name($bucket, $poolNamespace) . '@tags'));
    }

    /** Nothing is left to do: the daemon drops items and tags that have expired. */
    public function prune(): bool
    {
        return true;
    }

    protected function doFetch(array $ids): iterable
    {
        $items = array_filter($this->items->fetch($ids), is_array(...));
        $tags = [];
        foreach ($items as $item) {
            $tags += $item['versions'] ?? [];
        }
        $current = $tags === [] ? [] : $this->tags->versions(array_map(strval(...), array_keys($tags)));
        return array_filter($items, static fn (array $item) => self::isCurrent($item['versions'] ?? [], $current));
    }

    protected function doHave(string $id): bool
    {
        return $this->doFetch([$id]) !== [];
    }

    protected function doClear(string $namespace): bool
    {
        if ($this->items->clear($namespace)) {
            $this->tags->clear();
        }
        return true;
    }

    protected function doDelete(array $ids): bool
    {
        $this->items->delete($ids);
        return true;
    }

    protected function doSave(array $values, int $lifetime, array $addTagData = [], array $removeTagData = []): array
    {
        $lifetime = $lifetime > 0 ? min($lifetime, $this->maxLifetime) : $this->maxLifetime;
        $tags = [];
        foreach ($values as $value) {
            $tags += array_fill_keys($value['tags'], true);
        }
        $versions = $this->tags->claim(array_map(strval(...), array_keys($tags)), $lifetime);
        foreach ($values as $id => $value) {
            $values[$id]['versions'] = array_intersect_key($versions, array_fill_keys($value['tags'], true));
        }
        return $this->items->save($values, $lifetime);
    }

    /** The default asks for each item's tags first; here an item leaves nothing behind. */
    protected function doDeleteYieldTags(array $ids): iterable
    {
        $this->doDelete($ids);
        return [];
    }

    protected function doDeleteTagRelations(array $tagData): bool
    {
        return true;
    }

    protected function doInvalidate(array $tagIds): bool
    {
        $this->tags->invalidate(array_map($this->tag(...), array_values($tagIds)));
        return true;
    }

    /**
     * @param array<array-key, string> $versions of an item's tags, when it was saved
     * @param array<array-key, string|null> $current
     */
    private static function isCurrent(array $versions, array $current): bool
    {
        foreach ($versions as $tag => $version) {
            if ($current[$tag] !== $version) {
                return false;
            }
        }
        return true;
    }

    /** The name of a tag from Symfony's id of it: the namespace and a marker between control characters come before. */
    private function tag(string $tagId): string
    {
        $afterNamespace = $this->poolNamespace === '' ? $tagId : substr($tagId, strlen($this->poolNamespace) + 1);
        return preg_split('/[\x00\x01]tags[\x00\x01]/', $afterNamespace, 2)[1];
    }
}
