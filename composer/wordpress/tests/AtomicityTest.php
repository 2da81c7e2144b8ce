<?php

declare(strict_types=1);

namespace Coatcheck\WordPress\Tests;

use Coatcheck\Tests\Packages\Child;
use Coatcheck\WordPress\ObjectCache;
use Coatcheck\WordPress\Tests\Support\CacheTestCase;

/**
 * Many processes at once, each with a request of its own.
 */
final class AtomicityTest extends CacheTestCase
{
    private const PROCESSES = 10;

    public function testOfManyWhoAddOneSucceeds(): void
    {
        $told = $this->inProcesses(fn (ObjectCache $cache) => $cache->add('lock', getmypid(), 'g', 60));
        self::assertSame(1, array_sum(array_map('intval', $told)));
    }

    public function testOfManyIncrementsNoneIsLost(): void
    {
        $this->request()->set('hits', 0);
        $this->request()->set('text', '0');
        $this->inProcesses(static function (ObjectCache $cache): bool {
            foreach (range(1, 50) as $ignored) {
                $cache->incr('hits');
                $cache->incr('text');
            }
            return true;
        });
        self::assertSame(50 * self::PROCESSES, $this->request()->get('hits'));
        self::assertSame(50 * self::PROCESSES, $this->request()->get('text'), 'also of what was no integer');
    }

    public function testOfManyWhoChangeDifferentOptionsNoneIsLost(): void
    {
        $this->request()->add('alloptions', ['home' => 'here'], 'options');
        $this->inProcesses(static function (ObjectCache $cache, int $number): bool {
            foreach (range(1, 5) as $round) {
                $all = $cache->get('alloptions', 'options', true);
                $all["option_$number"] = $round;
                $all["option_{$number}_$round"] = 'new';
                $cache->set('alloptions', $all, 'options');
            }
            return true;
        });
        $all = $this->request()->get('alloptions', 'options');
        self::assertCount(1 + 6 * self::PROCESSES, $all);
        foreach (range(1, self::PROCESSES) as $number) {
            self::assertSame(5, $all["option_$number"]);
        }
    }

    public function testManyWhoFlushDoNotStopThoseWhoReadAndWrite(): void
    {
        $told = $this->inProcesses(static function (ObjectCache $cache, int $number): bool {
            foreach (range(1, 20) as $round) {
                match ($number % 3) {
                    0 => $cache->flush_group('g'),
                    1 => $cache->set("key $number", $round, 'g'),
                    default => $cache->get_multiple(["key 1", "key 4"], 'g', true),
                };
            }
            $cache->set("key $number", 'last', 'g');
            return $cache->info()['trouble'] === null;
        });
        self::assertNotContains(false, $told);
        $this->request()->flush_group('g');
        self::assertFalse($this->request()->get('key 1', 'g'));
    }

    /**
     * @param callable(ObjectCache, int): mixed $work
     * @return list<mixed> what it returned
     */
    private function inProcesses(callable $work): array
    {
        $children = [];
        foreach (range(1, self::PROCESSES) as $number) {
            $children[] = Child::fork(fn () => $work($this->request(), $number));
        }
        $told = array_map(static fn (Child $child) => $child->tells(), $children);
        array_walk($children, static fn (Child $child) => $child->await());
        return $told;
    }
}
