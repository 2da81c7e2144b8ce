<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Tests;

use Coatcheck\Client\Client;
use Coatcheck\Laravel\Cache\CoatcheckStore;
use Coatcheck\Laravel\Tests\Support\CountingTransport;
use Coatcheck\Laravel\Tests\Support\LaravelTestCase;
use Coatcheck\Laravel\Tests\Support\MeddlingTransport;
use Coatcheck\Tests\Packages\Child;
use Coatcheck\Tests\Packages\Daemon;
use Illuminate\Cache\TaggedCache;

/**
 * Tagged values, as Laravel's own tests ask them of Redis, and that nothing of them is left behind.
 */
final class TagsTest extends LaravelTestCase
{
    public function testATaggedValueIsFoundUnderItsTagsOnly(): void
    {
        $this->tagged('people', 'authors')->put('name', 'Anne', 60);
        self::assertSame('Anne', $this->tagged('people', 'authors')->get('name'));
        self::assertNull($this->tagged('people')->get('name'));
        self::assertNull($this->cache()->get('name'));
        self::assertNull($this->tagged('people', 'artists')->get('name'));
    }

    public function testAFlushOfOneTagRemovesWhatHasItAndNothingElse(): void
    {
        $this->tagged('people', 'authors')->put('anne', 'Anne', 60);
        $this->tagged('people', 'artists')->put('john', 'John', 60);
        $this->tagged('places')->put('rome', 'Rome', 60);
        $this->cache()->put('plain', 'v', 60);

        self::assertTrue($this->tagged('authors')->flush());

        self::assertNull($this->tagged('people', 'authors')->get('anne'));
        self::assertSame('John', $this->tagged('people', 'artists')->get('john'));
        self::assertSame('Rome', $this->tagged('places')->get('rome'));
        self::assertSame('v', $this->cache()->get('plain'));

        $this->tagged('people', 'places')->flush();
        self::assertNull($this->tagged('people', 'artists')->get('john'));
        self::assertNull($this->tagged('places')->get('rome'));
        self::assertSame('v', $this->cache()->get('plain'));
    }

    public function testTagsCanBeGivenOneByOneOrAsAList(): void
    {
        $this->cache()->tags('a', 'b')->put('k', 'v', 60);
        self::assertSame('v', $this->cache()->tags(['a', 'b'])->get('k'));
        self::assertSame('v', $this->cache()->tags(['a', 'b', 'a'])->get('k'));
        self::assertSame(['a', 'b'], $this->cache()->tags(['a', 'b'])->getTags()->getNames());
        self::assertInstanceOf(TaggedCache::class, $this->cache()->tags('a'));
    }

    public function testNamesThatLookLikeNumbersAreTags(): void
    {
        $this->cache()->tags(['7', 8])->put('9', 'v', 60);
        self::assertSame('v', $this->cache()->tags([7, '8'])->get('9'));
        $this->cache()->tags('7')->flush();
        self::assertNull($this->cache()->tags([7, 8])->get('9'));
    }

    public function testNoTagIsNoPlaceOfSomebodyElse(): void
    {
        $this->cache()->tags([])->put('k', 'v', 60);
        self::assertSame('v', $this->cache()->tags([])->get('k'));
        self::assertSame(2, $this->cache()->tags([])->increment('n', 2));
    }

    public function testACounterIsTheKeyThatGetReads(): void
    {
        $tagged = $this->tagged('a', 'b');
        $tagged->put('hits', 5, 60);
        self::assertSame(7, $tagged->increment('hits', 2));
        self::assertSame(7, $tagged->get('hits'));
        self::assertSame(6, $tagged->decrement('hits'));
        self::assertSame(['hits' => 6], $tagged->many(['hits']));
        self::assertEqualsWithDelta(60_000, $this->values()->ttlMs($tagged->taggedItemKey('hits')), 5_000);
        self::assertNull($this->cache()->get('hits'));
    }

    public function testAddIsTheKeyThatGetReads(): void
    {
        self::assertTrue($this->tagged('a')->add('k', 'first', 60));
        self::assertFalse($this->tagged('a')->add('k', 'second', 60));
        self::assertSame('first', $this->tagged('a')->get('k'));
    }

    public function testManyValuesAreTheKeysThatGetReads(): void
    {
        $tagged = $this->tagged('a', 'b');
        self::assertTrue($tagged->putMany(['x' => 1, 7 => 'seven'], 60));
        self::assertSame(1, $tagged->get('x'));
        self::assertSame(['x' => 1, 7 => 'seven'], $tagged->many(['x', 7, 'x']));
        $tagged->putMany(['y' => 2]);
        self::assertSame(2, $tagged->get('y'));
        self::assertSame([], $tagged->many([]));
        self::assertTrue($tagged->getStore()->putMany([], 60));
    }

    public function testManyValuesCostTwoRoundTripsWhateverTheirNumber(): void
    {
        $transport = new CountingTransport($this->client()->transport);
        $tagged = (new CoatcheckStore(new Client($transport), $this->prefix))->tags(['a', 'b']);
        $tagged->putMany(['warm' => 1], 60);
        $transport->roundTrips = 0;
        $tagged->putMany(array_fill_keys(range(1, 100), 'v'), 60);
        self::assertSame(2, $transport->roundTrips);
        $tagged->many(range(1, 100));
        self::assertSame(4, $transport->roundTrips);
        $tagged->get(5);
        self::assertSame(6, $transport->roundTrips);
    }

    public function testRememberAndPullAndForget(): void
    {
        $tagged = $this->tagged('a');
        self::assertSame('made', $tagged->remember('k', 60, static fn () => 'made'));
        self::assertSame('made', $tagged->remember('k', 60, static fn () => 'made again'));
        self::assertSame('made', $tagged->pull('k'));
        self::assertNull($tagged->get('k'));
        self::assertFalse($tagged->forget('k'));
        $tagged->forever('k', 'v');
        self::assertTrue($tagged->forget('k'));
        $this->assertNothingIsLeft();
    }

    public function testLocksHaveNoTags(): void
    {
        self::assertTrue($this->tagged('a')->lock('foo', 60)->get());
        self::assertFalse($this->cache()->lock('foo', 60)->get());
    }

    public function testAFlushLeavesNothing(): void
    {
        foreach (range(1, 3) as $round) {
            foreach (range(1, 30) as $i) {
                $this->tagged('a', "b$i")->forever("k$round-$i", 'v');
                $this->tagged('a')->increment("n$round-$i");
                $this->tagged("b$i", 'a')->add("t$round-$i", 'v', 60);
            }
            $ids = $this->ids();
            self::assertCount(31, $ids);
            $this->tagged('a')->flush();
            self::assertSame([], iterator_to_array($this->values()->keys(), false));
            foreach ($ids as $id) {
                self::assertSame([], iterator_to_array($this->client()->bucket("laravel-tag:$id")->keys(), false));
            }
        }
    }

    public function testMoreValuesThanOneStepRemovesAreAllRemoved(): void
    {
        $this->tagged('a', 'b')->putMany(array_fill_keys(range(1, 2500), 'v'), 60);
        $this->tagged('b')->flush();
        $this->assertNothingIsLeft();
    }

    public function testTheIndexEndsWithTheValues(): void
    {
        $this->tagged('a', 'b')->put('k', 'v', 60);
        $this->tagged('a', 'b')->add('once', 'v', 60);
        $this->tagged('a', 'b')->touch('k', 90);
        $this->tagged('a', 'b')->increment('n');
        $item = fn (string $key) => $this->tagged('a', 'b')->taggedItemKey($key);
        foreach ($this->ids() as $id) {
            $index = $this->client()->bucket("laravel-tag:$id");
            self::assertEqualsWithDelta(90_000, $index->ttlMs($item('k')), 5_000);
            self::assertEqualsWithDelta(60_000, $index->ttlMs($item('once')), 5_000);
            self::assertSame(-1, $index->ttlMs($item('n')));
        }
        $this->tagged('a', 'b')->put('n', 1, 60);
        foreach ($this->ids() as $id) {
            self::assertEqualsWithDelta(60_000, $this->client()->bucket("laravel-tag:$id")->ttlMs($item('n')), 5_000);
        }
    }

    public function testATagsIdOutlivesItsValuesAndEndsAfterThem(): void
    {
        $left = fn (string $name) => $this->client()->bucket("laravel-tags:$this->prefix")->ttlMs("tag:$name");
        $month = 30 * 86_400_000;
        $this->tagged('short', 'long')->put('k', 'v', 60);
        $ids = $this->ids();
        self::assertEqualsWithDelta($month, $left('short'), 60_000);
        $this->client()->bucket("laravel-tags:$this->prefix")->expire('tag:short', 100);
        $this->tagged('short')->add('another', 'v', 60);
        self::assertEqualsWithDelta($month, $left('short'), 60_000, 'a value lets it live on');

        $this->tagged('long')->put('k', 'v', 40 * 86_400);
        self::assertSame(-1, $left('long'));
        $this->tagged('long')->put('k', 'v', 60);
        self::assertSame(-1, $left('long'), 'other values may still be there');
        self::assertEqualsCanonicalizing($ids, $this->ids());
        self::assertSame('v', $this->tagged('short', 'long')->get('k'));

        foreach (['forever' => 'v', 'increment' => 1] as $method => $value) {
            $this->tagged($method)->$method('k', $value);
            self::assertSame(-1, $left($method));
        }
        $this->tagged('long', 'forever', 'increment')->flush();
        self::assertSame(-2, $left('long'));
        self::assertNull($this->tagged('increment')->get('k'));
    }

    public function testAFlushOfTheWholeCacheLeavesNothing(): void
    {
        $this->tagged('a', 'b')->forever('k', 'v');
        $ids = $this->ids();
        $this->cache()->flush();
        self::assertNull($this->tagged('a', 'b')->get('k'));
        foreach ($ids as $id) {
            self::assertSame([], iterator_to_array($this->client()->bucket("laravel-tag:$id")->keys(), false));
        }
    }

    public function testClearOfATaggedCacheLeavesTheRestAlone(): void
    {
        $this->cache()->put('plain', 'v', 60);
        $this->tagged('a')->put('k', 'v', 60);
        self::assertTrue($this->tagged('a')->clear());
        self::assertNull($this->tagged('a')->get('k'));
        self::assertSame('v', $this->cache()->get('plain'));
    }

    public function testAValueThatIsStoredWhileItsTagIsFlushedIsGoneWithIt(): void
    {
        $operations = [
            'put' => static fn ($cache) => $cache->put('k', 'v', 60),
            'forever' => static fn ($cache) => $cache->forever('k', 'v'),
            'increment' => static fn ($cache) => $cache->increment('k'),
            'add' => static fn ($cache) => $cache->add('k', 'v', 60),
        ];
        foreach ($operations as $name => $operation) {
            $this->tagged('a', 'b')->get('k'); // the tags have ids
            $ids = $this->ids();
            // between the look at the tags and what follows, another process flushes one of them
            $transport = new MeddlingTransport($this->client()->transport, 1, fn () => $this->tagged('a')->flush());
            $operation((new CoatcheckStore(new Client($transport), $this->prefix))->tags(['a', 'b']));
            self::assertTrue($transport->hasMeddled, $name);
            self::assertNull($this->tagged('a', 'b')->get('k'), $name);
            self::assertSame([], iterator_to_array($this->values()->keys(), false), $name);
            foreach ($ids as $id) {
                $index = $this->client()->bucket("laravel-tag:$id");
                self::assertSame([], iterator_to_array($index->keys(), false), $name);
            }
        }
    }

    public function testNothingIsLeftAfterManyProcessesStoredAndFlushedAtOnce(): void
    {
        $daemon = Daemon::start();
        $tags = ['a', 'b', 'c'];
        $cache = fn (array $names) => $this->app->make('cache')
            ->repository(new CoatcheckStore(Client::connect($daemon->socket, ['transport' => 'stream']), 'p'))
            ->tags($names);
        $children = [];
        for ($i = 0; $i < 6; $i++) {
            $children[] = Child::fork(static function () use ($cache, $tags, $i): void {
                mt_srand($i);
                for ($n = 0; $n < 150; $n++) {
                    $some = $cache(array_slice($tags, mt_rand(0, 1), mt_rand(1, 2)));
                    match (mt_rand(0, 6)) {
                        0 => $some->put('k' . mt_rand(0, 9), 'v', 60),
                        1 => $some->forever('k' . mt_rand(0, 9), 'v'),
                        2 => $some->add('k' . mt_rand(0, 9), 'v', 60),
                        3 => $some->increment('n' . mt_rand(0, 9)),
                        4 => $some->putMany(['x' => 1, 'y' => 2], 60),
                        5 => $some->forget('k' . mt_rand(0, 9)),
                        6 => $some->flush(),
                    };
                }
            });
        }
        foreach ($children as $child) {
            self::assertNull($child->tells());
            $child->await();
        }
        $cache($tags)->flush();
        self::assertSame(0, Client::connect($daemon->socket)->status()['values']);
    }

    private function tagged(string ...$names): TaggedCache
    {
        return $this->cache()->tags($names);
    }

    /** @return list<string> */
    private function ids(): array
    {
        $tags = $this->client()->bucket("laravel-tags:$this->prefix");
        return array_map(
            static fn (string $id) => rtrim($id, '!'),
            array_values($tags->mget(iterator_to_array($tags->keys(), false))),
        );
    }

    private function assertNothingIsLeft(): void
    {
        self::assertSame([], iterator_to_array($this->values()->keys(), false));
        foreach ($this->ids() as $id) {
            self::assertSame([], iterator_to_array($this->client()->bucket("laravel-tag:$id")->keys(), false));
        }
    }
}
