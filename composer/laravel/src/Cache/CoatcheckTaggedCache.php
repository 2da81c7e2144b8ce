<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Cache;

use Illuminate\Cache\Repository;
use Illuminate\Cache\TaggedCache;

/**
 * A cache under some tags. TaggedStore knows the tags, so the key of an item is the key that was asked for, and many
 * items cost as few round trips as they do without tags.
 */
final class CoatcheckTaggedCache extends TaggedCache
{
    public function __construct(TaggedStore $store, private readonly CoatcheckTagSet $tagSet)
    {
        parent::__construct($store, $tagSet);
    }

    public function many(array $keys)
    {
        return Repository::many($keys);
    }

    public function putMany(array $values, $ttl = null)
    {
        return Repository::putMany($values, $ttl);
    }

    /** The key under which an item is kept now. */
    public function taggedItemKey($key)
    {
        return $this->tagSet->itemKey((string) $key);
    }

    protected function itemKey($key)
    {
        return $key;
    }
}
