<?php

declare(strict_types=1);

namespace Coatcheck\WordPress\Tests;

use Coatcheck\WordPress\Tests\Support\CacheTestCase;
use PHPUnit\Framework\Attributes\DataProvider;

/**
 * What WordPress promises about its object cache, between two requests and within one.
 */
final class ApiTest extends CacheTestCase
{
    public function testAMissIsFalseAndNotFound(): void
    {
        $found = 'of something else';
        self::assertFalse($this->request()->get('nothing', '', false, $found));
        self::assertFalse($found);
    }

    /** @dataProvider values */
    #[DataProvider('values')]
    public function testWhatOneRequestSetsTheNextGets(mixed $value): void
    {
        self::assertTrue($this->request()->set('key', $value));
        $next = $this->request();
        self::assertEquals($value, $next->get('key', '', false, $found));
        self::assertSame(gettype($value), gettype($next->get('key')));
        self::assertTrue($found);
    }

    /** @return array<string, array{mixed}> */
    public static function values(): array
    {
        return [
            'text' => ['alpha'], 'empty text' => [''], 'digits as text' => ['007'], 'a number as text' => ['5'],
            'integer' => [5], 'zero' => [0], 'negative' => [-3], 'float' => [1.5], 'null' => [null],
            'false' => [false], 'true' => [true], 'array' => [['a' => [1, null]]], 'object' => [(object) ['a' => 1]],
            'binary' => ["\0\xff" . str_repeat("\x80", 300)], 'large' => [str_repeat('x', 2_000_000)],
        ];
    }

    public function testAStoredNullOrFalseIsFoundInTheSameRequestToo(): void
    {
        $cache = $this->request();
        foreach ([null, false, 0, ''] as $value) {
            $cache->set('key', $value);
            self::assertSame($value, $cache->get('key', '', false, $found));
            self::assertTrue($found);
            self::assertFalse($cache->add('key', 'other'), 'it is there');
        }
    }

    public function testAddIsOnlyForWhatIsMissing(): void
    {
        self::assertTrue($this->request()->add('key', 'first'));
        $cache = $this->request();
        self::assertFalse($cache->add('key', 'second'));
        self::assertSame('first', $cache->get('key'));
    }

    public function testAddDoesNothingWhileAdditionsAreSuspended(): void
    {
        $cache = $this->request();
        wp_suspend_cache_addition(true);
        try {
            self::assertFalse($cache->add('key', 'value'));
            self::assertSame(['a' => false], $cache->add_multiple(['a' => 1]));
            self::assertTrue($cache->set('other', 'value'));
        } finally {
            wp_suspend_cache_addition(false);
        }
        self::assertFalse($this->request()->get('key'));
    }

    public function testReplaceIsOnlyForWhatTheDaemonHas(): void
    {
        $cache = $this->request();
        self::assertFalse($cache->replace('key', 'value'));
        self::assertFalse($cache->get('key'));
        $this->request()->set('key', 'theirs');
        self::assertTrue($cache->replace('key', 'ours'), 'it was set by another request');
        $this->request()->delete('key');
        self::assertFalse($cache->replace('key', 'again'), 'the own copy does not count');
        self::assertFalse($cache->get('key'));
    }

    public function testDeleteTellsWhetherThereWasSomething(): void
    {
        $this->request()->set('key', 'value');
        $cache = $this->request();
        self::assertTrue($cache->delete('key'));
        self::assertFalse($cache->delete('key'));
        self::assertFalse($cache->get('key'));
        self::assertFalse($this->request()->get('key'));
    }

    public function testCountersChangeInTheDaemonAndStopAtZero(): void
    {
        $this->request()->set('hits', 5);
        $cache = $this->request();
        self::assertSame(6, $cache->incr('hits'));
        self::assertSame(16, $cache->incr('hits', 10));
        self::assertSame(14, $this->request()->decr('hits', 2));
        self::assertSame(0, $cache->decr('hits', 100));
        self::assertSame(0, $this->request()->get('hits'));
    }

    public function testACounterThatIsMissingIsFalseAndStaysMissing(): void
    {
        $cache = $this->request();
        self::assertFalse($cache->incr('hits'));
        self::assertFalse($cache->decr('hits'));
        self::assertFalse($this->request()->get('hits', '', false, $found));
        self::assertFalse($found);
        $cache->set('hits', 1);
        $this->request()->delete('hits');
        self::assertFalse($cache->incr('hits'), 'the own copy does not count');
        self::assertFalse($cache->get('hits'));
    }

    /** @dataProvider noIntegers */
    #[DataProvider('noIntegers')]
    public function testWhatIsNoIntegerCountsAsWordPressCountsIt(mixed $value, int|float $after): void
    {
        $this->request()->set('hits', $value);
        self::assertSame($after, $this->request()->incr('hits', 2));
        self::assertSame($after, $this->request()->get('hits'));
    }

    /** @return array<string, array{mixed, int|float}> */
    public static function noIntegers(): array
    {
        return [
            'text' => ['word', 2], 'digits' => ['5', 7], 'float' => [1.5, 3.5], 'array' => [[1], 2], 'null' => [null, 2],
            'negative' => [-10, 0], 'the largest' => [PHP_INT_MAX, PHP_INT_MAX + 2],
        ];
    }

    public function testCountersKeepTheirTimeToLive(): void
    {
        $cache = $this->request();
        $cache->set('integer', 1, 'g', 100);
        $cache->set('text', '1', 'g', 100);
        $cache->incr('integer', 1, 'g');
        $cache->incr('text', 1, 'g');
        $bucket = $this->client()->bucket("$this->prefix:all");
        foreach ($bucket->keys() as $key) {
            if (str_contains($key, ':g:')) {
                self::assertGreaterThan(90_000, $bucket->ttlMs($key), $key);
                self::assertLessThanOrEqual(100_000, $bucket->ttlMs($key), $key);
            }
        }
    }

    public function testValuesExpire(): void
    {
        $this->request()->set('short', 'value', '', 1);
        $this->request()->set('long', 'value', '', 90 * 86400);
        $this->request()->set('over', 'value', '', -1);
        self::assertSame('value', $this->request()->get('short'));
        \Coatcheck\Tests\Packages\Daemon::eventually(
            'the values expired',
            fn () => $this->request()->get('short') === false && $this->request()->get('over') === false,
        );
        self::assertSame('value', $this->request()->get('long'));
    }

    public function testObjectsAreClonedOnTheirWayInAndOut(): void
    {
        $cache = $this->request();
        $object = new \ArrayObject(['a']);
        $cache->set('key', $object);
        $object->append('b');
        $got = $cache->get('key');
        self::assertCount(1, $got);
        $got->append('c');
        self::assertCount(1, $cache->get('key'));
        self::assertCount(1, $cache->get_multiple(['key'])['key']);
        $other = $this->request();
        $other->get('key')->append('d');
        self::assertCount(1, $other->get('key'), 'also those that came from the daemon');
    }

    public function testForceSkipsTheOwnCopy(): void
    {
        $cache = $this->request();
        $cache->set('key', 'old');
        $this->request()->set('key', 'new');
        self::assertSame('old', $cache->get('key'));
        self::assertSame('new', $cache->get('key', '', true));
        self::assertSame('new', $cache->get('key'));
        $this->request()->delete('key');
        self::assertSame(['key' => false], $cache->get_multiple(['key'], '', true));
        self::assertFalse($cache->get('key'));
    }

    public function testFlushRuntimeForgetsTheOwnCopyAlone(): void
    {
        $cache = $this->request();
        $cache->set('key', 'old');
        $cache->set('key', 'local', 'counts');
        $this->request()->set('key', 'new');
        self::assertTrue($cache->flush_runtime());
        self::assertSame('new', $cache->get('key'));
        self::assertFalse($cache->get('key', 'counts'));
    }

    public function testManyValuesTakeOneRoundTripAndKeepTheirKeysAndOrder(): void
    {
        $writer = $this->request();
        self::assertSame(['b' => true, 7 => true], $writer->set_multiple(['b' => 'B', 7 => 'seven'], 'g'));
        self::assertSame(['b' => false, 'c' => true], $writer->add_multiple(['b' => 'other', 'c' => null], 'g'));
        $reader = $this->request();
        $reader->get('x', 'g');
        $before = $this->transport->roundTrips;
        $expected = [7 => 'seven', 'nothing' => false, 'b' => 'B', 'c' => null];
        self::assertSame($expected, $reader->get_multiple(['7', 'nothing', 'b', 'c'], 'g'));
        self::assertSame(1, $this->transport->roundTrips - $before);
        self::assertCount(1, $this->transport->lastCalls, 'one frame');
        self::assertSame(['b' => true, 'nothing' => false], $reader->delete_multiple(['b', 'nothing'], 'g'));
        self::assertFalse($this->request()->get('b', 'g'));
    }

    public function testTheKeyOneIsTheTextOne(): void
    {
        $this->request()->set(1, 'value');
        self::assertSame('value', $this->request()->get('1'));
    }

    /** @dataProvider noKeys */
    #[DataProvider('noKeys')]
    public function testWhatIsNoKeyIsRefusedAndSaidSo(mixed $key): void
    {
        $cache = $this->request();
        self::assertFalse($cache->set($key, 'value'));
        self::assertFalse($cache->add($key, 'value'));
        self::assertFalse($cache->replace($key, 'value'));
        self::assertFalse($cache->get($key));
        self::assertFalse($cache->delete($key));
        self::assertFalse($cache->incr($key));
        self::assertFalse($cache->decr($key));
        self::assertCount(7, $GLOBALS['doing_it_wrong']);
        self::assertStringContainsString('WP_Object_Cache::set', $GLOBALS['doing_it_wrong'][0]);
        self::assertSame(0, $this->transport->roundTrips);
    }

    /** @return array<string, array{mixed}> */
    public static function noKeys(): array
    {
        return ['empty' => [''], 'blank' => [" \t"], 'null' => [null], 'false' => [false], 'float' => [1.5], 'array' => [[]]];
    }

    public function testAnInvalidKeyAmongManyIsFalse(): void
    {
        $cache = $this->request();
        self::assertSame(['' => false, 'a' => true], $cache->set_multiple(['' => 1, 'a' => 1]));
        self::assertSame(['' => false, 'a' => 1], $cache->get_multiple(['', 'a']));
        self::assertSame(['' => false, 'a' => true], $cache->delete_multiple(['', 'a']));
    }

    public function testNoGroupIsTheGroupDefault(): void
    {
        $cache = $this->request();
        $cache->set('key', 'value', 'default');
        self::assertSame('value', $this->request()->get('key'));
        self::assertSame('value', $this->request()->get('key', ''));
        self::assertFalse($this->request()->get('key', 'other'));
    }

    public function testKeysAndGroupsThatLookAlikeAreDifferent(): void
    {
        $names = [['a', 'b:c'], ['a:b', 'c'], ['a', 'b-c'], ['a', 'b c'], ['1:a', 'b'], ['a', '1:b'], ['A', 'b:c']];
        $names[] = ['a', str_repeat('k', 70_000)];
        $names[] = ['a', str_repeat('k', 70_001)];
        $writer = $this->request();
        foreach ($names as $index => [$group, $key]) {
            $writer->set($key, "value $index", $group);
        }
        $reader = $this->request();
        foreach ($names as $index => [$group, $key]) {
            self::assertSame("value $index", $reader->get($key, $group));
        }
    }

    public function testNonPersistentGroupsNeverLeaveTheRequest(): void
    {
        $cache = $this->request();
        self::assertTrue($cache->set('key', 1, 'counts'));
        self::assertSame(2, $cache->incr('key', 1, 'counts'));
        self::assertFalse($cache->incr('other', 1, 'counts'));
        self::assertFalse($cache->add('key', 9, 'counts'));
        self::assertTrue($cache->replace('key', 5, 'counts'));
        self::assertFalse($cache->replace('other', 5, 'counts'));
        self::assertSame(5, $cache->get('key', 'counts', true));
        self::assertSame(['key' => 5, 'x' => false], $cache->get_multiple(['key', 'x'], 'counts'));
        self::assertTrue($cache->delete('key', 'counts'));
        self::assertFalse($cache->delete('key', 'counts'));
        $cache->set('key', 1, 'counts');
        self::assertTrue($cache->flush_group('counts'));
        self::assertFalse($cache->get('key', 'counts'));
        self::assertSame(0, $this->transport->roundTrips);
    }

    public function testGroupsAreAnnouncedOneByOneOrMany(): void
    {
        $cache = $this->request();
        $cache->add_non_persistent_groups('one');
        $cache->add_non_persistent_groups(['two', 'three']);
        foreach (['counts', 'one', 'two', 'three'] as $group) {
            $cache->set('key', 1, $group);
        }
        self::assertSame(0, $this->transport->roundTrips);
    }

    public function testFlushEmptiesTheCacheForEveryRequest(): void
    {
        $cache = $this->request();
        $other = $this->request();
        $other->set('key', 'value');
        self::assertTrue($cache->flush());
        self::assertFalse($cache->get('key'));
        self::assertFalse($other->get('key', '', true));
        self::assertFalse($this->request()->get('key'));
    }

    public function testFlushGroupEmptiesExactlyThatGroup(): void
    {
        $cache = $this->request();
        foreach (['group1', 'group10', 'group', 'group1:x', ''] as $group) {
            $cache->set('key', 'value', $group);
        }
        self::assertTrue($cache->flush_group('group1'));
        self::assertFalse($cache->get('key', 'group1'));
        $next = $this->request();
        self::assertFalse($next->get('key', 'group1'));
        foreach (['group10', 'group', 'group1:x', ''] as $group) {
            self::assertSame('value', $next->get('key', $group), $group);
            self::assertSame('value', $cache->get('key', $group), $group);
        }
        $next->set('key', 'new', 'group1');
        self::assertSame('new', $this->request()->get('key', 'group1'));
    }

    public function testAFlushTakesTheSameTimeHoweverManyValuesThereAre(): void
    {
        $cache = $this->request();
        $cache->set_multiple(array_fill_keys(range(1, 5000), 'value'), 'many');
        $before = $this->transport->roundTrips;
        $cache->flush_group('many');
        self::assertSame(1, $this->transport->roundTrips - $before);
        self::assertCount(1, $this->transport->lastCalls);
        $cache->flush();
        self::assertSame([['kv.flush', ['bucket' => "$this->prefix:all"]]], $this->transport->lastCalls);
    }

    public function testARunningRequestSeesTheFlushOfAGroupByAnother(): void
    {
        $cache = $this->request();
        $cache->set('key', 'value', 'g');
        $this->request()->flush_group('g');
        self::assertFalse($cache->get('key', 'g', true));
        $cache->set('key', 'ours', 'g');
        self::assertSame('ours', $this->request()->get('key', 'g'), 'and what it sets belongs to the new generation');
        $this->request()->flush();
        $this->request()->set('key', 'theirs', 'g');
        $cache->delete('key', 'g');
        self::assertFalse($this->request()->get('key', 'g'), 'and what it deletes is what the others have');
    }

    public function testWhatWasFlushedDoesNotComeBackWhenTheRecordOfItIsEvicted(): void
    {
        $cache = $this->request();
        $cache->set('key', 'flushed', 'g');
        $cache->set('key', 'kept', 'h');
        $cache->flush_group('g');
        $this->client()->bucket("$this->prefix:all")->del('generations');
        self::assertFalse($this->request()->get('key', 'g'));
        self::assertFalse($this->request()->get('key', 'h'), 'nor anything else');
    }

    public function testABrokenRecordOfGenerationsIsReplaced(): void
    {
        $this->client()->bucket("$this->prefix:all")->set('generations', 'no record');
        $this->request()->set('key', 'value');
        self::assertSame('value', $this->request()->get('key'));
    }

    public function testManyFlushedGroupsDoNotMakeTheRecordGrowWithoutBound(): void
    {
        $cache = $this->request();
        foreach (range(1, 520) as $number) {
            $cache->flush_group("group-$number");
        }
        self::assertLessThan(60_000, strlen((string) $this->client()->bucket("$this->prefix:all")->get('generations')));
    }

    public function testSaltedValuesAreMissesWithAnotherSalt(): void
    {
        $cache = $this->request();
        self::assertTrue($cache->set_salted('key', 'value', 'g', ['1', '2'], 60));
        self::assertSame(['a' => true, 'b' => true], $cache->set_multiple_salted(['a' => 1, 'b' => []], 'g', '1:2'));
        $next = $this->request();
        self::assertSame('value', $next->get_salted('key', 'g', '1:2'));
        self::assertSame(['a' => 1, 'b' => [], 'c' => false], $next->get_multiple_salted(['a', 'b', 'c'], 'g', ['1', '2']));
        self::assertFalse($next->get_salted('key', 'g', '3'));
        $next->set_salted('number', 'value', 'g', 17);
        self::assertSame('value', $this->request()->get_salted('number', 'g', 17));
        self::assertSame(['a' => false], $next->get_multiple_salted(['a'], 'g', '3'));
        $next->set('plain', 'text', 'g');
        self::assertFalse($next->get_salted('plain', 'g', '1'));
    }

    public function testWhatCannotLeaveTheRequestStaysInIt(): void
    {
        $cache = $this->request();
        $cache->set('key', 'old');
        self::assertTrue($cache->set('key', static fn () => 1));
        self::assertInstanceOf(\Closure::class, $cache->get('key'));
        self::assertFalse($this->request()->get('key'), 'and the old value is gone');
    }

    public function testBytesThatCannotBeReadAreAMiss(): void
    {
        $cache = $this->request();
        $cache->set('key', 'value');
        $bucket = $this->client()->bucket("$this->prefix:all");
        foreach ($bucket->keys() as $key) {
            if (str_ends_with($key, ':key')) {
                $bucket->set($key, 'O:8:"stdClass":1:{broken');
            }
        }
        self::assertFalse($this->request()->get('key', '', false, $found));
        self::assertFalse($found);
    }

    public function testFeaturesAreThoseOfWordPress(): void
    {
        $cache = $this->request();
        $features = ['add_multiple', 'set_multiple', 'get_multiple', 'delete_multiple', 'flush_runtime', 'flush_group'];
        foreach ($features as $feature) {
            self::assertTrue($cache->supports($feature));
        }
        self::assertFalse($cache->supports('time-travel'));
    }

    public function testStatisticsCountHitsMissesAndRoundTrips(): void
    {
        $cache = $this->request();
        $cache->set('<key>', 'value', '<group>');
        $cache->get('<key>', '<group>');
        $cache->get_multiple(['<key>', 'nothing'], '<group>');
        self::assertSame([2, 1], [$cache->cache_hits, $cache->cache_misses]);
        self::assertSame($this->transport->roundTrips, $cache->info()['round_trips']);
        ob_start();
        $cache->stats();
        self::assertStringContainsString('&lt;group&gt; (1)', (string) ob_get_clean());
    }

    public function testAValueTooLargeForTheDaemonIsFalseAndLeavesNoOlderOne(): void
    {
        $cache = $this->request();
        $cache->set('key', 'old');
        $lines = $this->logged(function () use ($cache): void {
            $results = $cache->set_multiple(['key' => str_repeat('x', 17 << 20), 'small' => 'value']);
            self::assertSame(['key' => false, 'small' => true], $results);
        });
        self::assertCount(1, $lines);
        self::assertFalse($this->request()->get('key'));
        self::assertSame('value', $this->request()->get('small'));
        self::assertSame(17 << 20, strlen($cache->get('key')), 'this request has it');
    }

    public function testMoreValuesThanOneCallTakesAreReadInOneRoundTrip(): void
    {
        $values = array_fill_keys(range(1, 33_000), 'v');
        $this->request()->set_multiple($values, 'posts');
        $cache = $this->request();
        $cache->get('other', 'posts');
        $before = $this->transport->roundTrips;
        self::assertSame($values, $cache->get_multiple(array_keys($values), 'posts'));
        self::assertSame(1, $this->transport->roundTrips - $before);
        self::assertNull($cache->info()['trouble']);
    }

    public function testACallThatTheDaemonDoesNotUnderstandCostsNothingElse(): void
    {
        $this->request()->set('other', 'value');
        $cache = $this->request();
        $this->transport->misuse('kv.set', ['value' => ['no text']]);
        $lines = $this->logged(static function () use ($cache): void {
            self::assertFalse($cache->set('key', 'of this request'));
            self::assertSame('of this request', $cache->get('key'));
            self::assertTrue($cache->set('another', 'value'));
        });
        self::assertCount(1, $lines, implode("\n", $lines));
        self::assertNull($cache->info()['trouble']);
        self::assertFalse($this->request()->get('key'));
        self::assertSame('value', $this->request()->get('other'), 'nothing was flushed');
        self::assertSame('value', $this->request()->get('another'));
        self::assertSame([], glob("$this->stateDirectory/.coatcheck-*"));
    }

    public function testATimeToLiveThatNobodyLivesToSeeIsKeptAsLongAsThereIsADaemon(): void
    {
        $cache = $this->request();
        self::assertTrue($cache->set('key', 'value', '', PHP_INT_MAX));
        self::assertNull($cache->info()['trouble']);
        self::assertSame('value', $this->request()->get('key'));
        self::assertTrue($this->request()->set('gone', 'value', '', PHP_INT_MIN));
    }

    public function testTheLowestOffsetIsSubtractedAsTheHighestIsAdded(): void
    {
        $cache = $this->request();
        $cache->set('n', 0);
        self::assertSame(PHP_INT_MAX, $cache->decr('n', PHP_INT_MIN));
    }

    public function testAGroupThatIsFlushedAgainAndAgainNeverTakesOthersWithIt(): void
    {
        $cache = $this->request();
        $cache->set('key', 'value', 'posts');
        foreach (range(1, 500) as $number) {
            $cache->flush_group("g$number");
        }
        $cache->flush_group('g7');
        self::assertSame('value', $this->request()->get('key', 'posts'));
        $cache->flush_group('g501');
        self::assertFalse($this->request()->get('key', 'posts'), 'more groups than are told apart');
    }
}
