<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Tests;

use Coatcheck\Client\Exception\ConnectionException;
use Coatcheck\Client\Exception\RefusedException;
use Coatcheck\Client\Exception\TooLargeException;
use Coatcheck\Laravel\Cache\CoatcheckStore;
use Coatcheck\Laravel\Tests\Support\LaravelTestCase;
use Coatcheck\Tests\Packages\Child;
use PHPUnit\Framework\Attributes\DataProvider;

/**
 * The cache store, as Laravel's repository uses it.
 */
final class StoreTest extends LaravelTestCase
{
    public function testAMissIsNull(): void
    {
        self::assertNull($this->cache()->get('missing'));
        self::assertSame('default', $this->cache()->get('missing', 'default'));
        self::assertFalse($this->cache()->has('missing'));
    }

    public function testNullIsNotCachedAndFalseIs(): void
    {
        $this->cache()->put('k', null, 9);
        self::assertFalse($this->cache()->has('k'));
        $this->cache()->put('k', false, 9);
        self::assertTrue($this->cache()->has('k'));
        self::assertFalse($this->cache()->get('k', 'default'));
    }

    /** @return iterable<string, array{mixed}> */
    public static function stored(): iterable
    {
        yield 'text' => ['a text'];
        yield 'empty text' => [''];
        yield 'NUL and high bytes' => ["\0\xff\x80"];
        yield 'digits as a text' => ['0123'];
        yield 'a number as a text' => ['7'];
        yield 'a number with an exponent as a text' => ['1e3'];
        yield 'zero' => [0];
        yield 'negative' => [-5];
        yield 'largest' => [PHP_INT_MAX];
        yield 'smallest' => [PHP_INT_MIN];
        yield 'float' => [1.5];
        yield 'whole float' => [2.0];
        yield 'infinity' => [INF];
        yield 'negative infinity' => [-INF];
        yield 'true' => [true];
        yield 'list' => [[1, 'b', null]];
        yield 'nested' => [['a' => ['b' => [1.5, false]]]];
    }

    /** @dataProvider stored */
    #[DataProvider('stored')]
    public function testAValueComesBackAsItWas(mixed $value): void
    {
        self::assertTrue($this->cache()->put('k', $value, 60));
        self::assertSame($value, $this->cache()->get('k'));
        self::assertTrue($this->cache()->forever('k', $value));
        self::assertSame(['k' => $value], $this->cache()->many(['k']));
    }

    public function testNotANumberComesBack(): void
    {
        $this->cache()->put('k', NAN, 60);
        self::assertNan($this->cache()->get('k'));
    }

    public function testAnObjectComesBack(): void
    {
        $this->cache()->put('k', new \ArrayObject(['a' => 1]), 60);
        self::assertEquals(new \ArrayObject(['a' => 1]), $this->cache()->get('k'));
    }

    public function testOnlyClassesThatAreAllowedComeBack(): void
    {
        $this->cache()->put('k', new \ArrayObject(), 60);
        $app = $this->application(['cache.serializable_classes' => [\SplStack::class]]);
        self::assertInstanceOf(\__PHP_Incomplete_Class::class, $app->make('cache')->store('coatcheck')->getStore()->get('k'));
        self::assertInstanceOf(\ArrayObject::class, $this->store()->get('k'));
    }

    public function testWhatCannotBeReadBackIsAMiss(): void
    {
        $this->values()->set('k', 'O:7:"broken');
        self::assertNull($this->cache()->get('k'));
    }

    public function testTheTimeToLiveIsTheOneGiven(): void
    {
        $this->cache()->put('k', 'v', 60);
        self::assertEqualsWithDelta(60_000, $this->values()->ttlMs('k'), 5_000);
        $this->cache()->put('k', 'v', now()->addMinutes(5));
        self::assertEqualsWithDelta(300_000, $this->values()->ttlMs('k'), 5_000);
        $this->cache()->forever('k', 'v');
        self::assertSame(-1, $this->values()->ttlMs('k'));
        $this->cache()->put('k', 'v');
        self::assertSame(-1, $this->values()->ttlMs('k'));
    }

    public function testNoTimeToLiveForgets(): void
    {
        $this->cache()->put('k', 'v', 60);
        $this->cache()->put('k', 'v', 0);
        self::assertNull($this->cache()->get('k'));
    }

    public function testTheStoreTakesNoTimeToLiveAsOneSecondAndPartsOfOne(): void
    {
        $this->store()->put('none', 'v', 0);
        self::assertEqualsWithDelta(1_000, $this->values()->ttlMs('none'), 500);
        $this->store()->put('part', 'v', 0.05);
        self::eventually('the value is gone', fn () => $this->store()->get('part') === null, 1.0);
    }

    public function testManyKeepsNumericKeys(): void
    {
        $this->cache()->put('1', 'one', 60);
        $this->cache()->put('a', 'letter', 60);
        self::assertSame([1 => 'one', 2 => null, 'a' => 'letter'], $this->store()->many([1, '2', 'a']));
        $this->cache()->put('2', 'two', 60); // Laravel 8's repository takes a neighbour for the default of a miss
        self::assertSame([1 => 'one', 2 => 'two', 'a' => 'letter'], $this->cache()->many([1, '2', 'a']));
        self::assertSame([], $this->cache()->many([]));
    }

    public function testPutManyKeepsNumericKeys(): void
    {
        self::assertTrue($this->cache()->putMany([7 => 'seven', '8' => 8, 'x' => [1]], 60));
        self::assertSame([7 => 'seven', 8 => 8, 'x' => [1]], $this->cache()->many([7, 8, 'x']));
        self::assertEqualsWithDelta(60_000, $this->values()->ttlMs('8'), 5_000);
    }

    public function testPutManySaysWhatWasNotStoredAndStoresTheRest(): void
    {
        try {
            $this->cache()->putMany(['a' => 1, 'large' => random_bytes(17 << 20), 'b' => 2], 60);
            self::fail('17 MiB were stored');
        } catch (TooLargeException $failure) {
            self::assertGreaterThan(17 << 20, $failure->size());
        }
    }

    public function testAddStoresOnlyWhatIsMissing(): void
    {
        self::assertTrue($this->cache()->add('k', 'first', 60));
        self::assertFalse($this->cache()->add('k', 'second', 60));
        self::assertSame('first', $this->cache()->get('k'));
        self::assertEqualsWithDelta(60_000, $this->values()->ttlMs('k'), 5_000);
        self::assertTrue($this->cache()->add('for ever', 'v'));
        self::assertFalse($this->cache()->add('never', 'v', 0));
    }

    public function testAddInManyProcessesAtOnceIsTrueOnce(): void
    {
        $children = [];
        for ($i = 0; $i < 20; $i++) {
            $children[] = Child::fork(fn () => $this->cache()->add('k', $i, 60));
        }
        $added = array_map(static fn (Child $child) => $child->tells(), $children);
        array_map(static fn (Child $child) => $child->await(), $children);
        self::assertCount(1, array_keys($added, true, true), json_encode($added));
    }

    public function testACounterCountsAndStaysAnInteger(): void
    {
        $this->cache()->put('k', 5, 60);
        self::assertSame(7, $this->cache()->increment('k', 2));
        self::assertSame(7, $this->cache()->get('k'));
        self::assertSame(4, $this->cache()->decrement('k', 3));
        self::assertSame(3, $this->cache()->decrement('k'));
    }

    public function testACounterKeepsItsTimeToLive(): void
    {
        $this->cache()->put('k', 1, 60);
        $this->cache()->increment('k');
        $this->cache()->decrement('k');
        self::assertEqualsWithDelta(60_000, $this->values()->ttlMs('k'), 5_000);
    }

    public function testAMissingCounterBeginsAtZero(): void
    {
        self::assertSame(1, $this->cache()->increment('up'));
        self::assertSame(-1, $this->cache()->decrement('down'));
        self::assertSame(-1, $this->values()->ttlMs('up'));
    }

    public function testANumberThatWasPutAsATextCounts(): void
    {
        $this->cache()->put('k', '41', 60);
        self::assertSame(42, $this->cache()->increment('k'));
        self::assertSame(42, $this->cache()->get('k'));
        self::assertEqualsWithDelta(60_000, $this->values()->ttlMs('k'), 5_000);
    }

    public function testWhatIsNoNumberDoesNotCount(): void
    {
        $this->cache()->put('k', 'words', 60);
        try {
            $this->cache()->increment('k');
            self::fail('words were counted');
        } catch (RefusedException $refusal) {
            self::assertSame('not_integer', $refusal->reason());
        }
        self::assertSame('words', $this->cache()->get('k'));
    }

    public function testACounterChangesByWholeNumbersOnly(): void
    {
        self::assertSame(3, $this->cache()->increment('k', '3'));
        $this->expectException(\InvalidArgumentException::class);
        $this->cache()->increment('k', 1.5);
    }

    public function testTouchBeginsTheLifeAnew(): void
    {
        $this->cache()->put('k', 'v', 5);
        self::assertTrue($this->store()->touch('k', 60));
        self::assertEqualsWithDelta(60_000, $this->values()->ttlMs('k'), 5_000);
        self::assertSame('v', $this->cache()->get('k'));
        self::assertFalse($this->store()->touch('missing', 60));
    }

    public function testForgetTellsWhetherThereWasOne(): void
    {
        $this->cache()->put('k', 'v', 60);
        self::assertTrue($this->cache()->forget('k'));
        self::assertFalse($this->cache()->forget('k'));
    }

    public function testAFlushTouchesNoOtherPrefixAndNoLockAndNoSession(): void
    {
        $other = new CoatcheckStore($this->client(), "other-$this->prefix");
        $other->put('k', 'theirs', 60);
        $this->cache()->put('k', 'ours', 60);
        $lock = $this->cache()->lock('held', 60);
        $lock->get();
        $handler = $this->handler();
        $handler->read('session1');
        $handler->write('session1', 'data');

        self::assertTrue($this->cache()->flush());

        self::assertNull($this->cache()->get('k'));
        self::assertSame('theirs', $other->get('k'));
        self::assertTrue($lock->isLocked());
        self::assertSame('data', $handler->read('session1'));
    }

    public function testThePrefixNamesTheKeyspace(): void
    {
        self::assertSame($this->prefix, $this->store()->getPrefix());
        $this->store()->put('k', 'first', 60);
        $this->store()->setPrefix("second-$this->prefix");
        self::assertNull($this->store()->get('k'));
        $this->store()->setPrefix($this->prefix);
        self::assertSame('first', $this->store()->get('k'));
    }

    public function testADaemonThatCannotBeAskedIsNoMiss(): void
    {
        $app = $this->application(['cache.stores.gone' => ['driver' => 'coatcheck', 'dsn' => '/nonexistent/coatcheck.sock']]);
        $this->expectException(ConnectionException::class);
        $app->make('cache')->store('gone')->get('k');
    }

    public function testManyKeysCostOneRoundTrip(): void
    {
        $transport = new Support\CountingTransport($this->client()->transport);
        $cache = $this->app->make('cache')->repository(
            new CoatcheckStore(new \Coatcheck\Client\Client($transport), $this->prefix)
        );
        $cache->putMany(array_fill_keys(range(1, 200), 'v'), 60);
        self::assertSame(1, $transport->roundTrips);
        self::assertSame(array_fill_keys(range(1, 200), 'v'), $cache->many(range(1, 200)));
        self::assertSame(2, $transport->roundTrips);
    }
}
