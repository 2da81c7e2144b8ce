<?php

declare(strict_types=1);

namespace Coatcheck\Client\Tests\Contract;

use Coatcheck\Client\Exception\InvalidArgumentException;
use Coatcheck\Client\Exception\RefusedException;
use Coatcheck\Client\Exception\RequestFailed;
use Coatcheck\Tests\Packages\Daemon;
use PHPUnit\Framework\Attributes\DataProvider;

trait ValueCases
{
    public function testAValueComesBackAsItWasSet(): void
    {
        foreach (['', '0', "a\0b\xff", str_repeat("\x00\xff", 150_000)] as $value) {
            self::assertTrue($this->client->set('key', $value));
            self::assertSame($value, $this->client->get('key'));
        }
        self::assertNull($this->client->get('missing'));
    }

    public function testAKeyMayBeAnyBytes(): void
    {
        $key = "\0\xc3\x28 {}:\n";
        $this->client->set($key, 'found');
        self::assertSame('found', $this->client->get($key));
        self::assertSame([$key], iterator_to_array($this->client->keys(), false));
    }

    public function testManyValuesKeepTheirKeysAndOrder(): void
    {
        self::assertSame([], $this->client->mset(['b' => '2', 12 => 'twelve', 'empty' => '']));
        self::assertSame(
            ['empty' => '', 'none' => null, 12 => 'twelve', 'b' => '2'],
            $this->client->mget(['x' => 'empty', 'y' => 'none', 'z' => 12, 'w' => 'b']),
        );
        self::assertSame([], $this->client->mget([]));
        self::assertSame([], $this->client->mset([]));
    }

    public function testMoreKeysThanOneRequestTakes(): void
    {
        $keys = array_map(static fn (int $i) => "k$i", range(1, 20_000));
        $this->client->set('k1', 'first');
        $this->client->set('k20000', 'last');
        $values = $this->client->mget($keys);
        self::assertSame(['first', 'last', 20_000], [$values['k1'], $values['k20000'], count($values)]);
        self::assertSame(2, $this->client->exists($keys));
        self::assertSame(2, $this->client->del($keys));
    }

    public function testWhatCannotBeSetIsNamedAndTheOthersAreSet(): void
    {
        $failures = $this->client->mset(['good' => '1', str_repeat('k', 70_000) => '2', 'better' => '3']);
        self::assertCount(1, $failures);
        self::assertInstanceOf(RequestFailed::class, reset($failures));
        self::assertSame('3', $this->client->get('better'));
    }

    public function testConditionsOfASet(): void
    {
        self::assertFalse($this->client->set('key', 'v', xx: true));
        self::assertTrue($this->client->set('key', 'v', nx: true));
        self::assertFalse($this->client->set('key', 'w', nx: true));
        self::assertFalse($this->client->set('key', 'w', ifEqual: 'other'));
        self::assertTrue($this->client->set('key', 'w', ifEqual: 'v'));
        self::assertTrue($this->client->set('key', 'x', xx: true));
        self::assertSame([true, 'x'], $this->client->getSet('key', 'y'));
        self::assertSame([false, 'y'], $this->client->getSet('key', 'z', nx: true));
        self::assertSame([true, null], $this->client->getSet('new', 'z'));
        self::assertFalse($this->client->setnx('key', 'z'));
        self::assertTrue($this->client->setnx('newer', 'z', 10));
        self::assertSame('y', $this->client->get('key'));
    }

    public function testAnExpiryBelowASecondEnds(): void
    {
        $this->client->set('key', 'v', 0.05);
        self::assertSame('v', $this->client->get('key'));
        Daemon::eventually('the key has expired', fn () => $this->client->get('key') === null);
        self::assertSame(-2, $this->client->ttlMs('key'));
    }

    public function testExpiriesAreSetKeptAndTakenAway(): void
    {
        $this->client->set('key', 'v', 100);
        self::assertGreaterThan(90_000, $this->client->ttlMs('key'));
        $this->client->set('key', 'v', keepTtl: true);
        self::assertGreaterThan(90_000, $this->client->ttlMs('key'));
        $this->client->set('key', 'v');
        self::assertSame(-1, $this->client->ttlMs('key'));
        self::assertTrue($this->client->expire('key', 50));
        self::assertTrue($this->client->expireIfEqual('key', 'v', 200));
        self::assertFalse($this->client->expireIfEqual('key', 'w', 2));
        self::assertGreaterThan(150_000, $this->client->ttlMs('key'));
        self::assertTrue($this->client->persist('key'));
        self::assertFalse($this->client->persist('key'));
        self::assertFalse($this->client->expire('missing', 5));
    }

    /**
     * @dataProvider badLives
     */
    #[DataProvider('badLives')]
    public function testALifeThatCannotBeIsRefusedHere(float $seconds): void
    {
        $this->expectException(InvalidArgumentException::class);
        $this->expectExceptionMessage('ttlSeconds');
        $this->client->set('key', 'v', $seconds);
    }

    /** @return array<string, array{float}> */
    public static function badLives(): array
    {
        return ['zero' => [0.0], 'negative' => [-1.0], 'not a number' => [NAN], 'endless' => [INF]];
    }

    public function testOnlyTheSameValueIsDeleted(): void
    {
        $this->client->set('key', 'mine');
        self::assertFalse($this->client->delIfEqual('key', 'theirs'));
        self::assertTrue($this->client->delIfEqual('key', 'mine'));
        self::assertFalse($this->client->delIfEqual('key', 'mine'));
    }

    public function testDeletingAndCounting(): void
    {
        $this->client->mset(['a' => '1', 'b' => '2', 'c' => '3']);
        self::assertSame(2, $this->client->exists(['a', 'b', 'x']));
        self::assertSame(1, $this->client->del('a'));
        self::assertSame(1, $this->client->del(['a', 'b']));
        self::assertSame(0, $this->client->del([]));
        self::assertSame('3', $this->client->getDel('c'));
        self::assertNull($this->client->getDel('c'));
    }

    public function testCounters(): void
    {
        self::assertSame(1, $this->client->incrBy('n', ttlIfNewSeconds: 100));
        self::assertSame(11, $this->client->incrBy('n', 10, ttlIfNewSeconds: 1000));
        self::assertLessThan(101_000, $this->client->ttlMs('n'));
        self::assertSame(0, $this->client->incrBy('n', -20, floor: 0));
        self::assertNull($this->client->incrBy('missing', create: false));
        self::assertNull($this->client->get('missing'));
        $this->client->set('big', (string) PHP_INT_MAX);
        foreach (['big' => 'overflow', 'text' => 'not_integer'] as $key => $reason) {
            $this->client->set('text', 'x');
            try {
                $this->client->incrBy($key);
                self::fail("$key was counted");
            } catch (RefusedException $refused) {
                self::assertSame($reason, $refused->reason());
            }
        }
    }

    public function testAppendingAndLength(): void
    {
        self::assertSame(2, $this->client->append('key', 'ab'));
        self::assertSame(4, $this->client->append('key', 'cd'));
        self::assertSame(4, $this->client->strlen('key'));
        self::assertSame(0, $this->client->strlen('missing'));
        self::assertSame('abcd', $this->client->get('key'));
    }

    public function testAScanBringsEveryKeyWithThePrefix(): void
    {
        $values = [];
        foreach (range(1, 250) as $i) {
            $values["page:$i"] = $values["other:$i"] = 'v';
        }
        $this->client->mset($values);
        $keys = iterator_to_array($this->client->keys('page:', 100), false);
        self::assertCount(250, array_unique($keys));
        self::assertSame([], preg_grep('/^page:/', $keys, PREG_GREP_INVERT));
    }

    public function testABucketIsAKeyspaceOfItsOwn(): void
    {
        $bucket = $this->client->bucket('shop');
        $bucket->set('key', 'in the bucket');
        $this->client->set('key', 'outside');
        self::assertSame('in the bucket', $bucket->get('key'));
        self::assertSame([], $bucket->mset(['many' => '1']));
        self::assertNull($this->client->get('many'));
        self::assertSame(['key' => 'in the bucket'], $bucket->pipeline(['key' => ['kv.get', ['key' => 'key']]]));
        $bucket->flush();
        self::assertNull($bucket->get('key'));
        self::assertSame('outside', $this->client->get('key'));
    }

    public function testAWaitEndsWithTheNextWrite(): void
    {
        $this->client->set('key', 'old');
        $known = $this->client->wait('key', 0, 1);
        self::assertSame('old', $known['value']);
        self::assertNull($this->client->wait('key', $known['version'], 0.02));
        self::other()->set('key', 'new');
        $next = $this->client->wait('key', $known['version'], 5);
        self::assertSame('new', $next['value']);
        self::assertGreaterThan($known['version'], $next['version']);
    }

    public function testAPipelineKeepsKeysAndPutsFailuresInTheirPlace(): void
    {
        $answers = $this->client->pipeline([
            'set' => ['kv.set', ['key' => 'a', 'value' => 'x']],
            7 => ['kv.get', ['key' => 'a']],
            'bad' => ['kv.incr_by', ['key' => 'a']],
            'ping' => ['server.ping'],
        ]);
        self::assertSame(['set', 7, 'bad', 'ping'], array_keys($answers));
        self::assertSame([true, 'x', true], [$answers['set'], $answers[7], $answers['ping']]);
        self::assertInstanceOf(RefusedException::class, $answers['bad']);
        self::assertSame('not_integer', $answers['bad']->reason());
        self::assertSame([], $this->client->pipeline([]));
    }

    public function testAPipelineLargerThanAllBuffersIsNoDeadlock(): void
    {
        $value = str_repeat('x', 100_000);
        $this->client->set('big', $value);
        $calls = [];
        for ($i = 0; $i < 60; $i++) {
            $calls[] = ['kv.set', ['key' => "k$i", 'value' => $value]];
            $calls[] = ['kv.get', ['key' => 'big']];
        }
        $answers = $this->client->pipeline($calls);
        self::assertSame(60, count(array_keys($answers, true, true)));
        self::assertSame(60, count(array_keys($answers, $value, true)));
    }
}
