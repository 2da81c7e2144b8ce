<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Cache;

use Illuminate\Cache\TagSet;

/**
 * Some tags of a store. Each has an id while it is in use; values are kept under the ids, so a tag that lost its id has
 * lost its values. A flush takes the id away first and then removes what was kept under it.
 */
final class CoatcheckTagSet extends TagSet
{
    private const KEYS_AT_ONCE = 1000;

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
        $ids = array_combine($this->names, $this->known());
        $missing = array_keys($ids, null, true);
        return array_values($missing === [] ? $ids : array_replace($ids, $this->create($missing)));
    }

    /**
     * The ids as they are, null where there is none.
     *
     * @return list<string|null>
     */
    public function known(): array
    {
        $calls = $this->lookUp();
        return $calls === [] ? [] : Requests::sendAll($this->values->client(), $calls)[0];
    }

    /**
     * The request behind known(), to go with others in one round trip.
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
        $id = $tags->getDel($this->tagKey($name));
        if ($id !== null) {
            $this->sweep($id);
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
            $calls[] = ['kv.setnx', $tag + ['value' => bin2hex(random_bytes(8))]];
            $calls[] = ['kv.get', $tag];
        }
        $answers = Requests::sendAll($this->values->client(), $calls);
        $ids = [];
        foreach ($names as $i => $name) {
            $ids[$name] = $answers[2 * $i + 1] ?? bin2hex(random_bytes(8)); // flushed in between: an id of nobody's
        }
        return $ids;
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
