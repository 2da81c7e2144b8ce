<?php

declare(strict_types=1);

namespace Coatcheck\WordPress\Tests;

use Coatcheck\WordPress\ObjectCache;
use Coatcheck\WordPress\Tests\Support\CacheTestCase;
use PHPUnit\Framework\Attributes\DataProvider;

/**
 * The interleavings in which WordPress loses options with a cache that just stores what it is given. The database stands
 * in the tests' words: what a request read from it at its time.
 */
final class OptionsGuardTest extends CacheTestCase
{
    public function testMapsGoRoundAsAnyValue(): void
    {
        $cache = $this->request();
        self::assertFalse($cache->get('alloptions', 'options'));
        self::assertTrue($cache->add('alloptions', ['a' => '1'], 'options'));
        self::assertSame(['a' => '1'], $cache->get('alloptions', 'options'));
        $next = $this->request();
        self::assertSame(['alloptions' => ['a' => '1']], $next->get_multiple(['alloptions'], 'options'));
        self::assertFalse($next->add('alloptions', [], 'options'));
        self::assertTrue($next->delete('alloptions', 'options'));
        self::assertFalse($this->request()->get('alloptions', 'options'));
    }

    public function testAMapMayBeSetWithoutALook(): void
    {
        self::assertTrue($this->request()->set('alloptions', ['a' => '1'], 'options'));
        self::assertTrue($this->request()->set('alloptions', ['b' => '1'], 'options'));
        self::assertSame(['b' => '1'], $this->request()->get('alloptions', 'options'));
        self::assertTrue($this->request()->replace('alloptions', ['c' => '1'], 'options'));
        self::assertSame(['c' => '1'], $this->request()->get('alloptions', 'options'));
        self::assertFalse($this->request()->replace('notoptions', ['c' => true], 'options'));
    }

    public function testDifferentOptionsChangedAtTheSameTimeAreAllKept(): void
    {
        $this->store(['a' => '1', 'b' => '1', 'gone' => '1', 'also gone' => '1']);
        $first = $this->request();
        $second = $this->request();
        $ofFirst = $first->get('alloptions', 'options', true);
        $ofSecond = $second->get('alloptions', 'options', true);
        $ofFirst['a'] = '2';
        $ofFirst['new'] = '1';
        unset($ofFirst['gone']);
        $first->set('alloptions', $ofFirst, 'options');
        $ofSecond['b'] = '2';
        unset($ofSecond['also gone']);
        $second->set('alloptions', $ofSecond, 'options');
        $expected = ['a' => '2', 'b' => '2', 'new' => '1'];
        self::assertEquals($expected, $this->request()->get('alloptions', 'options'));
        self::assertEquals($expected, $second->get('alloptions', 'options'), 'who came later knows both');
        $ofSecond = $second->get('alloptions', 'options');
        $ofSecond['b'] = '3';
        $second->set('alloptions', $ofSecond, 'options');
        self::assertEquals(['b' => '3'] + $expected, $this->request()->get('alloptions', 'options'));
    }

    public function testWhatWasReadFromTheDatabaseBeforeAChangeIsNotStoredAfterIt(): void
    {
        $slow = $this->request();
        self::assertFalse($slow->get('alloptions', 'options'), 'it goes to the database and reads a = 1');
        $this->update(['a' => '2'], ['a' => '1']);
        $this->request()->flush();
        self::assertFalse($slow->add('alloptions', ['a' => '1'], 'options'));
        self::assertFalse($this->request()->get('alloptions', 'options'));
    }

    public function testOfTwoWhoReadTheDatabaseTheLaterOneStores(): void
    {
        $early = $this->request();
        $early->get('alloptions', 'options');
        $late = $this->request();
        $late->get('alloptions', 'options');
        self::assertFalse($early->add('alloptions', ['a' => 'early'], 'options'));
        self::assertTrue($late->add('alloptions', ['a' => 'late'], 'options'));
        self::assertSame(['a' => 'late'], $this->request()->get('alloptions', 'options'));
    }

    public function testAChangeAfterAFlushIsNotStoredWithWhatElseWasKnownBefore(): void
    {
        $this->store(['a' => '1', 'b' => '1']);
        $slow = $this->request();
        $all = $slow->get('alloptions', 'options', true);
        $this->update(['b' => '2'], []);
        $this->request()->flush();
        $all['a'] = '2';
        $slow->set('alloptions', $all, 'options');
        $all['a'] = '3';
        $slow->set('alloptions', $all, 'options');
        self::assertFalse($this->request()->get('alloptions', 'options'), 'the database is read anew');
    }

    public function testAChangeTakesTheLeaseFromWhoReadsTheDatabase(): void
    {
        $this->store(['a' => '1']);
        $writer = $this->request();
        $all = $writer->get('alloptions', 'options', true);
        $this->request()->flush();
        $reader = $this->request();
        $reader->get('alloptions', 'options');
        $all['a'] = '2';
        $writer->set('alloptions', $all, 'options');
        self::assertFalse($reader->add('alloptions', ['a' => '1'], 'options'));
        self::assertFalse($this->request()->get('alloptions', 'options'));
    }

    public function testALeaseOfAProcessThatDiedKeepsNobodyFromStoring(): void
    {
        $this->request()->get('alloptions', 'options');
        $next = $this->request();
        self::assertFalse($next->get('alloptions', 'options'));
        self::assertTrue($next->add('alloptions', ['a' => '1'], 'options'));
    }

    public function testNamesOfMissingOptionsAreRemembered(): void
    {
        $cache = $this->request();
        $this->lookForMissing($cache, 'x');
        $this->lookForMissing($cache, 'y');
        self::assertSame(['x' => true, 'y' => true], $this->request()->get('notoptions', 'options'));
    }

    /** @dataProvider creations */
    #[DataProvider('creations')]
    public function testAnOptionThatIsCreatedWhileSomeoneLooksForItIsNotTakenForMissing(callable $create): void
    {
        $looking = $this->request();
        $this->lookForMissing($looking, 'other');
        $names = $looking->get('notoptions', 'options'); // and x is not in the database yet
        $create($this->request());
        $names['x'] = true;
        $looking->set('notoptions', $names, 'options');
        self::assertArrayNotHasKey('x', $this->request()->get('notoptions', 'options') ?: []);
        self::assertArrayNotHasKey('x', $looking->get('notoptions', 'options') ?: []);
    }

    /** @dataProvider creations */
    #[DataProvider('creations')]
    public function testItIsNotWhenThereWasNoListOfMissingOnesEither(callable $create): void
    {
        $looking = $this->request();
        self::assertFalse($looking->get('notoptions', 'options')); // and x is not in the database yet
        $create($this->request());
        $looking->set('notoptions', [], 'options');
        $looking->set('notoptions', ['x' => true], 'options');
        self::assertArrayNotHasKey('x', $this->request()->get('notoptions', 'options') ?: []);
        self::assertArrayNotHasKey('x', $looking->get('notoptions', 'options') ?: []);
    }

    public function testAMissingListMayBeAdded(): void
    {
        $cache = $this->request();
        self::assertFalse($cache->get('notoptions', 'options'));
        self::assertTrue($cache->add('notoptions', ['x' => true], 'options'));
        self::assertSame(['x' => true], $this->request()->get('notoptions', 'options'));
    }

    public function testASecondChangeToTheMapInHandUndoesNoOthersChangeEither(): void
    {
        $this->store(['a' => '1', 'b' => '1']);
        $cache = $this->request();
        $all = $cache->get('alloptions', 'options');
        $this->update(['b' => '2'], []);
        foreach (['2', '3'] as $value) {
            $all['a'] = $value;
            $cache->set('alloptions', $all, 'options');
        }
        self::assertEquals(['a' => '3', 'b' => '2'], $this->request()->get('alloptions', 'options'));
        $all = $cache->get('alloptions', 'options');
        $all['b'] = '1';
        $cache->set('alloptions', $all, 'options');
        self::assertEquals(['a' => '3', 'b' => '1'], $this->request()->get('alloptions', 'options'), 'who read it may');
    }

    /** @return array<string, array{callable}> */
    public static function creations(): array
    {
        return [
            'loaded at the start' => [static function (ObjectCache $cache): void {
                $cache->get('alloptions', 'options', true);
                $cache->add('alloptions', ['a' => '1'], 'options');
                $cache->set('alloptions', ['a' => '1', 'x' => '1'], 'options');
            }],
            'of its own' => [static fn (ObjectCache $cache) => $cache->set('x', '1', 'options')],
            'of its own, then a flush' => [static function (ObjectCache $cache): void {
                $cache->set('x', '1', 'options');
                $cache->flush();
            }],
        ];
    }

    public function testACreatedOptionLeavesTheNamesOfMissingOnes(): void
    {
        $this->lookForMissing($this->request(), 'x');
        $creating = $this->request();
        $names = $creating->get('notoptions', 'options');
        $creating->set('x', '1', 'options');
        unset($names['x']);
        $creating->set('notoptions', $names, 'options');
        self::assertSame([], $this->request()->get('notoptions', 'options'));
    }

    public function testOptionsOfANetworkAreGuardedAsWell(): void
    {
        $looking = $this->request(2);
        $looking->set('1:notoptions', ['other' => true], 'site-options');
        $names = $looking->get('1:notoptions', 'site-options');
        $this->request(1)->set('1:x', 'value', 'site-options');
        $looking->set('1:notoptions', ['x' => true] + $names, 'site-options');
        self::assertSame(['other' => true], $this->request(3)->get('1:notoptions', 'site-options'));
    }

    public function testAMapTooLargeForTheDaemonLeavesNoOlderOne(): void
    {
        $this->store(['a' => '1']);
        $cache = $this->request();
        $all = $cache->get('alloptions', 'options', true);
        $all['large'] = str_repeat('x', 17 << 20);
        $cache->set('alloptions', $all, 'options');
        self::assertSame($all, $cache->get('alloptions', 'options'));
        self::assertFalse($this->request()->get('alloptions', 'options'));
    }

    /** @param array<string, string> $all */
    private function store(array $all): void
    {
        $cache = $this->request();
        $cache->get('alloptions', 'options');
        self::assertTrue($cache->add('alloptions', $all, 'options'));
    }

    /**
     * As update_option() does it.
     *
     * @param array<string, string> $changes
     * @param array<string, string> $database
     */
    private function update(array $changes, array $database): void
    {
        $cache = $this->request();
        $all = $cache->get('alloptions', 'options', true);
        if ($all === false) {
            $all = $changes + $database;
            $cache->add('alloptions', $all, 'options');
        }
        $cache->set('alloptions', $changes + $all, 'options');
    }

    /** As get_option() does it. */
    private function lookForMissing(ObjectCache $cache, string $option): void
    {
        $names = $cache->get('notoptions', 'options');
        if (!is_array($names)) {
            $names = [];
            $cache->set('notoptions', $names, 'options');
        }
        $cache->set('notoptions', $names + [$option => true], 'options');
    }
}
