<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Cache;

use Illuminate\Cache\TagSet;

/**
 * Some tags of a store. Each has an id while it is in use; values are kept under the ids, so a tag that lost its id has
 * lost its values. A flush takes the id away first and then removes what was kept under it.
 *
 * An id outlives the values under it: every value that is stored lets it live on for a while, and one that has no end, or
 * a late one, makes the id permanent. The mark of that is in what is stored, so that both are decided in one step.
 */
final class CoatcheckTagSet extends TagSet
{
    private const KEYS_AT_ONCE = 1000;

    /** How long an id lives after a value was stored under it: 30 days. */
    private const ID_LIFE_MS = 30 * 86_400_000;

    /** Follows an id that has no end. */
    private const PERMANENT = '!';

    /** @param array<array-key, mixed> $names */
    public function __construct(private readonly CoatcheckStore $values, array $names = [])
    {
        parent::__construct($values, array_values(array_unique($names)));
    }

    /**
     * The ids of the tags, in their order; one that had none gets one.
     *
     * @return list<string>
     */
    public function ids(): array
    {
        $calls = $this->lookUp();
        $known = $calls === [] ? [] : $this->known(Requests::sendAll($this->values->client(), $calls)[0]);
        $ids = array_combine($this->names, $known);
        $missing = array_keys($ids, null, true);
        return array_values($missing === [] ? $ids : array_replace($ids, $this->create($missing)));
    }

    /**
     * @param list<string|null> $stored the answer to lookUp()
     * @return list<string|null> the ids, null where there is none
     */
    public function known(array $stored): array
    {
        return array_map(static fn (?string $id) => $id === null ? null : self::idIn($id), $stored);
    }

    /**
     * The request for the ids as they are, to go with others in one round trip; known() reads its answer.
     *
     * @return list<array{string, array<string, mixed>}> one, or none when there are no tags
     */
    public function lookUp(): array
    {
        return $this->names === [] ? [] : [['kv.mget', [
            'bucket' => $this->values->tagsBucket(),
            'keys' => array_map($this->tagKey(...), $this->names),
        ]]];
    }

    /**
     * The requests that let the ids outlive a value, if they still are the tags'.
     *
     * @param list<string> $ids of the tags, in their order
     * @param int|null $ttlMs the value's life in milliseconds; null has no end
     * @return list<array{string, array<string, mixed>}>
     */
    public function prolong(array $ids, ?int $ttlMs): array
    {
        $calls = [];
        foreach ($this->names as $i => $name) {
            $tag = ['bucket' => $this->values->tagsBucket(), 'key' => $this->tagKey($name)];
            $calls[] = $ttlMs === null || $ttlMs > self::ID_LIFE_MS
                ? ['kv.set', $tag + ['value' => $ids[$i] . self::PERMANENT, 'ifeq' => $ids[$i]]]
                : ['kv.expire_if_eq', $tag + ['value' => $ids[$i], 'ttl_ms' => self::ID_LIFE_MS]];
        }
        return $calls;
    }

    public static function idIn(string $stored): string
    {
        return rtrim($stored, self::PERMANENT);
    }

    public function itemKey(string $key): string
    {
        return TagIndex::itemKey($this->ids(), $key);
    }

    public function getNamespace()
    {
        return implode('|', $this->ids());
    }

    public function tagId($name)
    {
        return $this->create([$name])[$name];
    }

    public function tagKey($name)
    {
        return "tag:$name";
    }

    public function reset()
    {
        $this->flush();
    }

    public function flush()
    {
        foreach ($this->names as $name) {
            $this->flushTag($name);
        }
    }

    public function resetTag($name)
    {
        $this->flushTag($name);
        return $this->tagId($name);
    }

    public function flushTag($name)
    {
        $tags = $this->values->client()->bucket($this->values->tagsBucket());
        $stored = $tags->getDel($this->tagKey($name));
        if ($stored !== null) {
            $this->sweep(self::idIn($stored));
        }
    }

    protected function tagIds()
    {
        return $this->ids();
    }

    /**
     * The first of several processes decides the id; the others take it over.
     *
     * @param non-empty-list<array-key> $names
     * @return array<array-key, string>
     */
    private function create(array $names): array
    {
        $calls = [];
        foreach ($names as $name) {
            $tag = ['bucket' => $this->values->tagsBucket(), 'key' => $this->tagKey($name)];
            $calls[] = ['kv.setnx', $tag + ['value' => self::newId(), 'ttl_ms' => self::ID_LIFE_MS]];
            $calls[] = ['kv.get', $tag];
        }
        $answers = Requests::sendAll($this->values->client(), $calls);
        $ids = [];
        foreach ($names as $i => $name) {
            $ids[$name] = self::idIn($answers[2 * $i + 1] ?? self::newId()); // flushed in between: an id of nobody's
        }
        return $ids;
    }

    private static function newId(): string
    {
        return bin2hex(random_bytes(8));
    }

    private function sweep(string $id): void
    {
        $client = $this->values->client();
        $index = $client->bucket(TagIndex::bucket($id));
        $cursor = 0;
        do {
            [$cursor, $itemKeys] = $index->scan('', $cursor, self::KEYS_AT_ONCE);
            foreach (array_chunk($itemKeys, self::KEYS_AT_ONCE) as $part) {
                Requests::sendAll($client, TagIndex::removal($this->values->valuesBucket(), $part));
            }
        } while ($cursor !== 0);
    }
}
