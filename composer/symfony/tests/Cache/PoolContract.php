<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Tests\Cache;

use Coatcheck\Client\Client;
use Coatcheck\Symfony\Tests\AsksDaemon;
use Coatcheck\Symfony\Tests\MemoryLogger;
use Coatcheck\Tests\Packages\Daemon;
use PHPUnit\Framework\TestCase;
use Symfony\Component\Cache\Adapter\AdapterInterface;
use Symfony\Component\Cache\CacheItem;
use Symfony\Component\Cache\Marshaller\DefaultMarshaller;
use Symfony\Component\Cache\Marshaller\DeflateMarshaller;
use Symfony\Component\Cache\Marshaller\MarshallerInterface;
use Symfony\Component\Cache\PruneableInterface;
use Symfony\Contracts\Cache\ItemInterface;

/**
 * What Symfony expects of every adapter, and what ours promise beyond.
 */
abstract class PoolContract extends TestCase
{
    use AsksDaemon;

    protected string $name;

    abstract protected function pool(
        ?Client $client = null,
        string $namespace = '',
        int $defaultLifetime = 0,
        ?MarshallerInterface $marshaller = null,
    ): AdapterInterface;

    protected function setUp(): void
    {
        $this->name = self::freshName();
    }

    public function testGetComputesOnceAndReportsTheItem(): void
    {
        $pool = $this->pool();
        $computed = 0;
        $compute = static function (ItemInterface $item) use (&$computed): string {
            $computed++;
            self::assertSame('key', $item->getKey());
            return "value $computed";
        };

        self::assertSame('value 1', $pool->get('key', $compute));
        self::assertSame('value 1', $pool->get('key', $compute));
        self::assertSame('value 2', $pool->get('key', $compute, INF), 'beta INF computes anew');
        self::assertTrue($pool->getItem('key')->isHit());
        self::assertTrue($pool->delete('key'));
        self::assertFalse($pool->getItem('key')->isHit());
    }

    public function testGetKeepsExpiryAndTimeOfComputing(): void
    {
        $pool = $this->pool();
        $pool->get('key', static function (ItemInterface $item): string {
            $item->expiresAfter(10);
            usleep(10_000);
            return 'value';
        });

        $metadata = $pool->getItem('key')->getMetadata();

        self::assertEqualsWithDelta(microtime(true) + 10, $metadata[CacheItem::METADATA_EXPIRY], 2);
        self::assertGreaterThan(0, $metadata[CacheItem::METADATA_CTIME]);
    }

    public function testGetMayAskForTheSameKeyInside(): void
    {
        $pool = $this->pool();
        $value = $pool->get('outer', static fn () => $pool->get('outer', static fn () => 'inner') . ' and outer');

        self::assertSame('inner and outer', $value);
        self::assertSame('inner and outer', $pool->getItem('outer')->get());
    }

    public function testGetDoesNotStoreWhatTheCallbackForbids(): void
    {
        $pool = $this->pool();
        $refuse = static function ($item, bool &$save): string {
            $save = false;
            return 'not for storing';
        };

        self::assertSame('not for storing', $pool->get('key', $refuse));
        self::assertFalse($pool->getItem('key')->isHit());
    }

    public function testItemsWithoutAnExpiryGetTheDefaultLifetime(): void
    {
        $pool = $this->pool(defaultLifetime: 1);
        $pool->save($pool->getItem('default')->set('x'));
        $pool->save($pool->getItem('own')->set('x')->expiresAfter(60));
        self::assertTrue($pool->getItem('default')->isHit());

        Daemon::eventually('the item expires', static fn () => !$pool->getItem('default')->isHit());
        self::assertTrue($pool->getItem('own')->isHit());
    }

    public function testAnItemThatExpiredBeforeItIsSavedIsDeleted(): void
    {
        $pool = $this->pool();
        $pool->save($pool->getItem('key')->set('x'));

        self::assertTrue($pool->save($pool->getItem('key')->set('y')->expiresAt(new \DateTime('-1 second'))));
        self::assertFalse($pool->getItem('key')->isHit());
    }

    public function testPruneHasNothingLeftToDo(): void
    {
        $pool = $this->pool();
        $pool->save($pool->getItem('key')->set('x'));

        self::assertInstanceOf(PruneableInterface::class, $pool);
        self::assertTrue($pool->prune());
        self::assertTrue($pool->getItem('key')->isHit());
    }

    public function testClearWithAPrefixDeletesTheItemsThatBeginSo(): void
    {
        $pool = $this->pool();
        foreach (['prefix_one', 'prefix_two', 'other'] as $key) {
            $pool->save($pool->getItem($key)->set('x'));
        }

        self::assertTrue($pool->clear('prefix_'));
        self::assertFalse($pool->hasItem('prefix_one'));
        self::assertFalse($pool->hasItem('prefix_two'));
        self::assertTrue($pool->hasItem('other'));
    }

    public function testClearWithAPrefixTakesAnyNumberOfItems(): void
    {
        $pool = $this->pool();
        for ($i = 0; $i < 2500; $i++) {
            $pool->saveDeferred($pool->getItem("many_$i")->set($i));
        }
        $pool->commit();

        self::assertTrue($pool->clear('many_'));
        foreach ($pool->getItems(array_map(static fn (int $i) => "many_$i", range(0, 2499))) as $item) {
            self::assertFalse($item->isHit());
        }
    }

    public function testClearTouchesNoOtherPool(): void
    {
        $pool = $this->pool();
        $longer = $this->pool(namespace: 'longer');
        $pool->save($pool->getItem('key')->set('x'));
        $longer->save($longer->getItem('key')->set('x'));

        self::assertTrue($pool->clear());

        self::assertFalse($pool->hasItem('key'));
        self::assertTrue($longer->hasItem('key'), 'whose namespace begins with that of the cleared one');
    }

    public function testClearTakesOneRoundTripHoweverManyItems(): void
    {
        $transport = self::countingTransport();
        $pool = $this->pool(new Client($transport));
        $pool->save($pool->getItem('key')->set('x'));
        $transport->take();

        $pool->clear();

        self::assertSame(['kv.flush'], array_values(array_unique($transport->take())));
    }

    public function testAValueThatCannotBeSerialisedIsReportedAndTheOthersAreStored(): void
    {
        $pool = $this->pool();
        $pool->setLogger($logger = new MemoryLogger());
        $pool->saveDeferred($pool->getItem('good')->set('x'));
        $pool->saveDeferred($pool->getItem('bad')->set(static fn () => 'a closure'));

        self::assertFalse($pool->commit());

        self::assertTrue($pool->hasItem('good'));
        self::assertFalse($pool->hasItem('bad'));
        self::assertStringContainsString('Failed to save key "', implode("\n", $logger->lines));
        self::assertStringContainsString('bad"', implode("\n", $logger->lines));
    }

    public function testAFailedSaveKeepsTheOldValue(): void
    {
        $pool = $this->pool();
        $pool->save($pool->getItem('key')->set('old'));

        self::assertFalse(@$pool->save($pool->getItem('key')->set(static fn () => 'a closure')));

        self::assertSame('old', $pool->getItem('key')->get());
    }

    public function testAValueThatCannotBeReadBackIsAMissOfItsOwn(): void
    {
        $pool = $this->pool();
        $pool->setLogger($logger = new MemoryLogger());
        $pool->save($pool->getItem('good')->set('x'));
        $pool->save($pool->getItem('bad')->set(new Unreadable()));

        $hits = [];
        foreach ($pool->getItems(['bad', 'good']) as $key => $item) {
            $hits[$key] = $item->isHit();
        }

        self::assertEquals(['bad' => false, 'good' => true], $hits);
        self::assertFalse($pool->getItem('bad')->isHit());
        self::assertStringContainsString('not again', implode("\n", $logger->lines));
    }

    public function testAValueLargerThanAFrameIsReportedWithTheReasonAndTheOthersAreStored(): void
    {
        $daemon = Daemon::start(['COATCHECK_LIMITS_MAX_FRAME' => '65536']);
        $pool = $this->pool(self::streamClientAt($daemon->socket));
        $pool->setLogger($logger = new MemoryLogger());

        self::assertFalse($pool->save($pool->getItem('large')->set(str_repeat('x', 100_000))));
        self::assertStringContainsString('65536', implode("\n", $logger->lines), 'which names the limit');

        $pool->saveDeferred($pool->getItem('large')->set(str_repeat('x', 100_000)));
        $pool->saveDeferred($pool->getItem('small')->set('x'));
        self::assertFalse($pool->commit());
        self::assertTrue($pool->hasItem('small'));
        self::assertFalse($pool->hasItem('large'));
    }

    public function testValuesThatTogetherAreLargerThanAFrameAreReadAllTheSame(): void
    {
        $daemon = Daemon::start(['COATCHECK_LIMITS_MAX_FRAME' => '65536']);
        $pool = $this->pool(self::streamClientAt($daemon->socket));
        $keys = array_map(static fn (int $i) => "part$i", range(1, 9));
        foreach ($keys as $key) {
            self::assertTrue($pool->save($pool->getItem($key)->set(str_repeat('x', 30_000))));
        }

        $items = iterator_to_array($pool->getItems($keys));

        self::assertCount(9, array_filter($items, static fn (CacheItem $item) => $item->isHit()));
    }

    public function testManyItemsAreReadInOneRoundTrip(): void
    {
        $transport = self::countingTransport();
        $pool = $this->pool(new Client($transport));
        foreach (['a', 'b', 'c'] as $key) {
            $pool->saveDeferred($pool->getItem($key)->set($key));
        }
        $transport->take();
        $pool->commit();
        self::assertCount(1, $transport->take(), 'many are saved in one as well');

        iterator_to_array($pool->getItems(['a', 'b', 'c', 'missing']));

        self::assertSame(['kv.mget'], $transport->take());
    }

    public function testNumericKeysStayWhatTheyAre(): void
    {
        $pool = $this->pool();
        $pool->saveDeferred($pool->getItem('1')->set('one'));
        $pool->saveDeferred($pool->getItem('02')->set('two'));
        $pool->commit();

        $values = [];
        foreach ($pool->getItems(['1', '02', '3']) as $key => $item) {
            self::assertSame((string) $key, $item->getKey());
            $values[(string) $key] = $item->get();
        }
        ksort($values);

        self::assertEquals(['1' => 'one', '02' => 'two', '3' => null], $values);
        self::assertTrue($pool->deleteItems(['1', '02']));
        self::assertFalse($pool->hasItem('1'));
    }

    public function testKeysAndValuesAreBinarySafe(): void
    {
        $pool = $this->pool();
        $values = [
            "a\0b" => random_bytes(100_000), "a\0c" => "\0", "k\xff" => null, 'false' => false, 'list' => [1, [2]],
        ];
        foreach ($values as $key => $value) {
            self::assertTrue($pool->save($pool->getItem($key)->set($value)));
        }
        foreach ($values as $key => $value) {
            self::assertTrue($pool->getItem($key)->isHit());
            self::assertSame($value, $pool->getItem($key)->get());
        }
    }

    public function testValuesThatLookLikeSymfonysEnvelopeAreKept(): void
    {
        $pool = $this->pool();
        $almost = "\x9D" . str_repeat("\0", 8) . "\x5E";
        foreach ([['value' => 1], ['value' => 1, 'tags' => ['x']], [$almost => 'x']] as $value) {
            $pool->save($pool->getItem('key')->set($value));
            self::assertSame($value, $pool->getItem('key')->get());
        }
    }

    public function testDeferredItemsAreSavedWhenThePoolGoesAndWhenItIsReset(): void
    {
        $pool = $this->pool();
        $pool->saveDeferred($pool->getItem('reset')->set('x'));
        $pool->reset();
        self::assertTrue($this->pool()->hasItem('reset'));

        $pool->saveDeferred($pool->getItem('destroyed')->set('x'));
        unset($pool);
        gc_collect_cycles();
        self::assertTrue($this->pool()->hasItem('destroyed'));
    }

    public function testTheMarshallerDecidesWhatIsStored(): void
    {
        $pool = $this->pool(marshaller: new DeflateMarshaller(new DefaultMarshaller()));
        $pool->save($pool->getItem('key')->set(str_repeat('x', 10_000)));

        self::assertSame(str_repeat('x', 10_000), $pool->getItem('key')->get());
        self::assertLessThan(1000, self::client()->bucket($this->bucket())->strlen($this->name . ':key'));
    }

    public function testAPoolWithoutItsDaemonMissesAndLogsWhy(): void
    {
        $daemon = Daemon::start();
        $pool = $this->pool(self::streamClientAt($daemon->socket));
        $pool->setLogger($logger = new MemoryLogger());
        $pool->save($pool->getItem('key')->set('x'));
        $daemon->kill();

        self::assertFalse($pool->getItem('key')->isHit());
        self::assertFalse($pool->hasItem('key'));
        self::assertFalse($pool->save($pool->getItem('key')->set('y')));
        self::assertFalse($pool->deleteItem('key'));
        self::assertFalse($pool->clear());
        self::assertSame('computed', $pool->get('other', static fn () => 'computed'));
        self::assertStringContainsString($daemon->socket, implode("\n", $logger->lines));

        $daemon->startAgain();
        self::assertTrue($pool->save($pool->getItem('key')->set('z')), 'it goes on when the daemon is back');
    }

    /** The bucket in which this pool's items are. */
    protected function bucket(): string
    {
        return 'cache:' . $this->name;
    }
}
