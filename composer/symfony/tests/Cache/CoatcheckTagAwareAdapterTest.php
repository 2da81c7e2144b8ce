<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Tests\Cache;

use Coatcheck\Client\Client;
use Coatcheck\Symfony\Cache\CoatcheckTagAwareAdapter;
use Coatcheck\Symfony\Tests\MemoryLogger;
use Coatcheck\Tests\Packages\Daemon;
use Psr\Cache\InvalidArgumentException;
use Symfony\Component\Cache\CacheItem;
use Symfony\Component\Cache\Marshaller\MarshallerInterface;

final class CoatcheckTagAwareAdapterTest extends PoolContract
{
    protected function pool(
        ?Client $client = null,
        string $namespace = '',
        int $defaultLifetime = 0,
        ?MarshallerInterface $marshaller = null,
    ): CoatcheckTagAwareAdapter {
        $name = $this->name . $namespace;
        return new CoatcheckTagAwareAdapter($client ?? self::client(), $name, $defaultLifetime, $marshaller);
    }

    public function testATagWithReservedCharactersIsRefused(): void
    {
        $this->expectException(InvalidArgumentException::class);
        $this->pool()->getItem('key')->tag('a:tag');
    }

    public function testInvalidatingATagTakesItsItemsAndNoOthers(): void
    {
        $pool = $this->pool();
        $this->save($pool, 'none', []);
        $this->save($pool, 'red', ['red']);
        $this->save($pool, 'both', ['red', 'blue']);
        $this->save($pool, 'blue', ['blue']);
        $this->save($pool, 'numeric', ['12', 'blue ']);

        self::assertTrue($pool->invalidateTags(['red', 'unknown']));
        self::assertSame(['none', 'blue', 'numeric'], $this->hits($pool));

        self::assertTrue($pool->invalidateTags(['12']));
        self::assertSame(['none', 'blue'], $this->hits($pool));
        self::assertFalse($pool->hasItem('numeric'));
        self::assertFalse($pool->invalidateTags([]));
    }

    public function testInvalidatingHoldsForEveryProcessAtOnce(): void
    {
        $one = $this->pool();
        $other = $this->pool();
        $this->save($one, 'red', ['red']);
        self::assertTrue($other->getItem('red')->isHit());

        $one->invalidateTags(['red']);

        self::assertFalse($other->getItem('red')->isHit());
    }

    public function testAnItemSavedAgainAfterAnInvalidationCounts(): void
    {
        $pool = $this->pool();
        $this->save($pool, 'red', ['red']);
        $pool->invalidateTags(['red']);
        $this->save($pool, 'red', ['red']);

        self::assertTrue($pool->hasItem('red'));
        $pool->invalidateTags(['red']);
        self::assertFalse($pool->hasItem('red'), 'the tag works again');
    }

    public function testAnItemLosesTheTagsThatItIsSavedWithout(): void
    {
        $pool = $this->pool();
        $this->save($pool, 'red', ['red', 'blue']);
        $item = $pool->getItem('red');
        $pool->save($item->tag('green')); // what it had is not had any more

        $pool->invalidateTags(['red', 'blue']);
        self::assertTrue($pool->hasItem('red'));
        $pool->invalidateTags(['green']);
        self::assertFalse($pool->hasItem('red'));
    }

    public function testAnItemTellsItsTags(): void
    {
        $pool = $this->pool();
        $this->save($pool, 'red', ['red', '12']);

        $tags = $pool->getItem('red')->getMetadata()[CacheItem::METADATA_TAGS];

        self::assertEquals(['red' => 'red', '12' => '12'], $tags);
    }

    public function testDeferredItemsAreInvalidatedToo(): void
    {
        $pool = $this->pool();
        $pool->saveDeferred($pool->getItem('red')->set('x')->tag('red'));
        $pool->commit();
        $pool->invalidateTags(['red']);

        self::assertFalse($pool->getItem('red')->isHit());
    }

    public function testTagsOfOnePoolAreNoneOfAnother(): void
    {
        $one = $this->pool();
        $other = $this->pool(namespace: 'other');
        $this->save($one, 'red', ['red']);
        $this->save($other, 'red', ['red']);

        $one->invalidateTags(['red']);

        self::assertFalse($one->hasItem('red'));
        self::assertTrue($other->hasItem('red'));
    }

    public function testAnItemSavedWithATagThatWasInvalidatedMeanwhileIsAMiss(): void
    {
        $pool = $this->pool();
        $this->save($pool, 'red', ['red']);
        $interrupted = new InterruptedTransport(self::client()->transport, function (): void {
            $this->pool()->invalidateTags(['red']);
        });

        $this->save($this->pool(new Client($interrupted)), 'red', ['red']);

        self::assertTrue($interrupted->wasInterrupted);
        self::assertFalse($pool->hasItem('red'));
    }

    public function testTheIndexHasOneSmallExpiringKeyForEachTagHoweverManyItems(): void
    {
        $pool = $this->pool();
        for ($i = 0; $i < 500; $i++) {
            $pool->saveDeferred($pool->getItem("item$i")->set($i)->tag(['red', 'blue'])->expiresAfter(60));
        }
        $pool->commit();
        $pool->deleteItems(array_map(static fn (int $i) => "item$i", range(0, 499)));

        $index = self::client()->bucket($this->bucket() . '@tags');
        $keys = iterator_to_array($index->keys());
        sort($keys);

        self::assertSame(['blue', 'red'], $keys);
        self::assertSame(8, $index->strlen('red'));
        self::assertGreaterThan(60_000, $index->ttlMs('red'), 'a tag outlives its items');
        self::assertLessThanOrEqual(120_000, $index->ttlMs('red'), 'and ends');
        $pool->invalidateTags(['red', 'blue']);
        self::assertSame([], iterator_to_array($index->keys()));
    }

    public function testATagLivesAsLongAsTheLongestItem(): void
    {
        $pool = $this->pool();
        $index = self::client()->bucket($this->bucket() . '@tags');
        $this->save($pool, 'short', ['red'], 60);
        $this->save($pool, 'long', ['red'], 3600);
        self::assertGreaterThan(3_600_000, $index->ttlMs('red'));

        $this->save($pool, 'short', ['red'], 60);
        self::assertGreaterThan(3_600_000, $index->ttlMs('red'), 'a shorter one takes nothing away');
    }

    public function testItemsWithoutAnExpiryEndAfterTheLongestLifetime(): void
    {
        $pool = new CoatcheckTagAwareAdapter(self::client(), $this->name, maxLifetime: 1000);
        $this->save($pool, 'endless', ['red'], null);
        $this->save($pool, 'long', ['red'], 5000);

        $items = self::client()->bucket($this->bucket());
        foreach (['endless', 'long'] as $key) {
            self::assertEqualsWithDelta(1_000_000, $items->ttlMs("$this->name:$key"), 30_000);
        }
        self::assertLessThanOrEqual(2_000_000, self::client()->bucket($this->bucket() . '@tags')->ttlMs('red'));
    }

    public function testALostTagCostsAMissAndBringsNothingBack(): void
    {
        $pool = $this->pool();
        $this->save($pool, 'old', ['red']);
        self::client()->bucket($this->bucket() . '@tags')->flush(); // as if it had been evicted

        self::assertFalse($pool->hasItem('old'));
        $this->save($pool, 'new', ['red']);
        self::assertFalse($pool->hasItem('old'));
        self::assertTrue($pool->hasItem('new'));
    }

    public function testClearForgetsTheTagsAsWell(): void
    {
        $pool = $this->pool();
        $this->save($pool, 'red', ['red']);
        $pool->clear();

        self::assertSame([], iterator_to_array(self::client()->bucket($this->bucket() . '@tags')->keys()));
    }

    public function testTaggedItemsAreReadAndSavedInTwoRoundTripsAndInvalidatedInOne(): void
    {
        $transport = self::countingTransport();
        $pool = $this->pool(new Client($transport));
        $item = $pool->getItem('red');
        $transport->take();

        $pool->save($item->set('x')->tag(['red', 'blue', 'green'])->expiresAfter(60));
        self::assertSame(['kv.set kv.ttl', 'kv.set'], $transport->take());

        $pool->getItem('red');
        self::assertSame(['kv.mget', 'kv.mget'], $transport->take());

        $pool->invalidateTags(['red', 'blue']);
        self::assertSame(['kv.del'], $transport->take());
    }

    public function testAnInvalidationThatFailsIsFalseAndLogged(): void
    {
        $daemon = Daemon::start();
        $pool = $this->pool(self::streamClientAt($daemon->socket));
        $pool->setLogger($logger = new MemoryLogger());
        $daemon->kill();

        self::assertFalse($pool->invalidateTags(['red']));
        self::assertStringContainsString('invalidate', implode("\n", $logger->lines));
    }

    /** @param list<string> $tags */
    private function save(CoatcheckTagAwareAdapter $pool, string $key, array $tags, ?int $lifetimeSeconds = 60): void
    {
        self::assertTrue($pool->save($pool->getItem($key)->set($key)->tag($tags)->expiresAfter($lifetimeSeconds)));
    }

    /** @return list<string> */
    private function hits(CoatcheckTagAwareAdapter $pool): array
    {
        $hits = [];
        foreach ($pool->getItems(['none', 'red', 'both', 'blue', 'numeric']) as $key => $item) {
            if ($item->isHit()) {
                $hits[] = $key;
            }
        }
        return $hits;
    }
}
