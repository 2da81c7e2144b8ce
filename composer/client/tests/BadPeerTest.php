<?php

declare(strict_types=1);

namespace Coatcheck\Client\Tests;

use Coatcheck\Client\Client;
use Coatcheck\Client\Exception\ConnectionException;
use Coatcheck\Client\Exception\ProtocolException;
use Coatcheck\Client\Exception\TimeoutException;
use Coatcheck\Client\Exception\UnavailableException;
use Coatcheck\Client\Tests\Support\BadPeer;
use PHPUnit\Framework\Attributes\DataProvider;
use PHPUnit\Framework\Attributes\TestWith;
use PHPUnit\Framework\TestCase;

/**
 * What the stream transport does with a peer that lies, hangs or goes away.
 */
final class BadPeerTest extends TestCase
{
    private string $socket;

    protected function setUp(): void
    {
        $this->socket = getenv('COATCHECK_TEST_DIR') . '/bad-' . bin2hex(random_bytes(4)) . '.sock';
    }

    /**
     * @dataProvider lies
     */
    #[DataProvider('lies')]
    public function testALieClosesTheConnection(string $codec, string $lie): void
    {
        $peer = new BadPeer($this->socket, static function ($connection, int $count) use ($lie): void {
            $id = BadPeer::readId($connection);
            fwrite($connection, $count === 0 ? strtr($lie, ['{id}' => pack('N', $id)]) : BadPeer::answer($id, 'true'));
            fread($connection, 1); // until the client closes
        });
        $client = $this->client($codec);
        $memory = memory_get_usage();
        try {
            $client->get('key');
            self::fail('the lie was believed');
        } catch (ProtocolException $failure) {
            self::assertStringContainsString($peer->socket, $failure->getMessage());
        }
        self::assertLessThan(1 << 20, memory_get_usage() - $memory);
        self::assertSame('true', $client->get('key'), 'a new connection serves the next request');
    }

    /** @return iterable<string, array{string, string}> */
    public static function lies(): iterable
    {
        $answer = static fn (string $result) => BadPeer::frame("\x94\x01\xce{id}\xc0" . $result);
        $lies = [
            'a length beyond every limit' => "\xff\xff\xff\xff",
            'a length just beyond the limit' => pack('N', 65536 + 65536 + 1),
            'an empty frame' => pack('N', 0),
            'no MessagePack' => BadPeer::frame("\xc1\xc1\xc1"),
            'a list longer than its frame' => BadPeer::frame("\xdd\x7f\xff\xff\xff"),
            'a map longer than its frame' => BadPeer::frame("\xdf\x7f\xff\xff\xff"),
            'bytes longer than their frame' => BadPeer::frame("\x94\x01\x01\xc0\xc6\x7f\xff\xff\xff"),
            'nested without an end' => BadPeer::frame(str_repeat("\x91", 60000)),
            'a request' => BadPeer::frame("\x94\x00\x01\xa4ping\x80"),
            'a number' => BadPeer::frame("\x01"),
            'a list of three' => BadPeer::frame("\x93\x01\x01\xc0"),
            'an answer to a question that nobody asked' => BadPeer::answer(0x7ffffff0, 'theirs'),
            'an answer with a text as id' => BadPeer::frame("\x94\x01\xa1x\xc0\xc0"),
        ];
        foreach (['plain', 'auto'] as $codec) {
            foreach ($lies as $name => $lie) {
                yield "$name ($codec)" => [$codec, $lie];
            }
        }
        yield 'an error that is none' => ['plain', BadPeer::frame("\x94\x01\xce{id}\xa4oops\xc0")];
        yield 'a second answer' => ['plain', BadPeer::answer(0, null)];
        yield 'an integer above 2^63' => ['plain', "\0\0\0\x11\x94\x01\xce{id}\xc0" . "\xcf\xff\xff\xff\xff\xff\xff\xff\xff"];
    }

    public function testAnAnswerInManyPiecesIsPutTogether(): void
    {
        $peer = new BadPeer($this->socket, static function ($connection): void {
            foreach (str_split(BadPeer::answer(BadPeer::readId($connection), str_repeat('x', 300))) as $byte) {
                fwrite($connection, $byte);
            }
            fread($connection, 1);
        });
        self::assertSame(str_repeat('x', 300), $this->client()->get('key'));
        self::assertFileExists($peer->socket);
    }

    public function testNoAnswerInTimeIsATimeoutAndALateOneIsNeverTaken(): void
    {
        $peer = new BadPeer($this->socket, static function ($connection, int $count): void {
            $id = BadPeer::readId($connection);
            if ($count === 0) {
                usleep(1_500_000); // late
            }
            @fwrite($connection, BadPeer::answer($id, "answer $count")); // perhaps the client has gone
            fread($connection, 1);
        });
        $client = $this->client(timeout: 1.0);
        $began = microtime(true);
        try {
            $client->set('key', 'v');
            self::fail('nothing was answered');
        } catch (TimeoutException $failure) {
            self::assertTrue($failure->outcomeIsUnknown());
            self::assertStringContainsString('whether it was carried out is unknown', $failure->getMessage());
        }
        self::assertTookAbout(1.0, $began);
        self::assertSame('answer 1', Client::connect($peer->socket, ['transport' => 'stream'])->get('key'));
    }

    public function testAPeerThatReadsNothingEndsAWriteAtItsDeadline(): void
    {
        $peer = new BadPeer($this->socket, static function ($connection): void {
            fread($connection, 1);
            sleep(30); // until the test kills it
        });
        $client = $this->client(timeout: 1.0);
        $calls = array_fill(0, 100, ['kv.set', ['key' => 'k', 'value' => str_repeat('x', 60_000)]]);
        $began = microtime(true);
        try {
            $client->pipeline($calls);
            self::fail('nothing was answered');
        } catch (TimeoutException $failure) {
            self::assertTrue($failure->outcomeIsUnknown());
        }
        self::assertTookAbout(1.0, $began);
        self::assertFileExists($peer->socket);
    }

    /**
     * @dataProvider floods
     */
    #[DataProvider('floods')]
    public function testAFloodWhileALargeRequestGoesOutIsRefused(string $flood, string $why): void
    {
        $peer = new BadPeer($this->socket, static function ($connection) use ($flood): void {
            fread($connection, 1);
            while (@fwrite($connection, $flood) === strlen($flood)) {
                continue;
            }
        }, maxFrame: 16 << 20);
        $client = $this->client();
        try {
            $client->set('key', str_repeat('x', 8 << 20));
            self::fail('the flood was taken for an answer');
        } catch (ProtocolException $failure) {
            self::assertStringContainsString($peer->socket, $failure->getMessage());
            self::assertStringContainsString($why, $failure->getMessage());
            self::assertTrue($failure->outcomeIsUnknown());
        }
    }

    /** @return iterable<string, array{string, string}> */
    public static function floods(): iterable
    {
        yield 'of zeros' => [str_repeat("\0", 1 << 20), 'more came back'];
        yield 'of answers that nobody asked for' => [str_repeat(BadPeer::answer(0x7ffffff0, true), 1000), 'more came back'];
        yield 'of a frame that is too long' => [str_repeat("\x7f", 1 << 20), 'more came back'];
    }

    /**
     * @testWith ["plain"]
     *           ["auto"]
     */
    #[TestWith(['plain'])]
    #[TestWith(['auto'])]
    public function testAnAnswerThatWouldExhaustTheMemoryIsRefused(string $codec): void
    {
        $peer = new BadPeer($this->socket, static function ($connection): void {
            $id = BadPeer::readId($connection);
            $nils = str_repeat("\xc0", 15 << 20);
            fwrite($connection, BadPeer::frame("\x94\x01\xce" . pack('N', $id) . "\xc0\xdd" . pack('N', 15 << 20) . $nils));
            fread($connection, 1);
        }, maxFrame: 16 << 20);
        $this->expectException(ProtocolException::class);
        $this->expectExceptionMessage("$peer->socket: kv.get: what came back is not a message (its values do not fit");
        $this->client($codec)->get('key');
    }

    public function testAPeerThatDripsBytesDoesNotExtendTheDeadline(): void
    {
        $peer = new BadPeer($this->socket, static function ($connection): void {
            BadPeer::readId($connection);
            fwrite($connection, pack('N', 1000));
            while (@fwrite($connection, "\xc0") === 1) {
                usleep(20_000);
            }
        });
        $began = microtime(true);
        try {
            $this->client(timeout: 0.3)->get('key');
            self::fail('nothing was answered');
        } catch (TimeoutException) {
            self::assertTookAbout(0.3, $began);
        }
        self::assertFileExists($peer->socket);
    }

    /**
     * @dataProvider requests
     */
    #[DataProvider('requests')]
    public function testWhatIsLostInTheMiddleIsSentAgainOnlyWhereThatDoesNoHarm(callable $ask, bool $isSentAgain): void
    {
        $peer = new BadPeer($this->socket, static function ($connection, int $count): void {
            $id = BadPeer::readId($connection);
            if ($count > 0) {
                fwrite($connection, BadPeer::answer($id, ['fence' => 1, 'waited_ms' => 0]));
                fread($connection, 1);
            }
        });
        $client = $this->client();
        try {
            $ask($client);
            self::assertTrue($isSentAgain, 'sent twice');
        } catch (ConnectionException $failure) {
            self::assertFalse($isSentAgain, $failure->getMessage());
            self::assertTrue($failure->outcomeIsUnknown());
        }
        self::assertFileExists($peer->socket);
    }

    /** @return array<string, array{callable, bool}> */
    public static function requests(): array
    {
        return [
            'kv.ttl' => [static fn (Client $c) => $c->call('kv.ttl', ['key' => 'k']), true],
            'lock.acquire' => [static fn (Client $c) => $c->acquireLock('l', 'token', 10.0), true],
            'kv.set' => [static fn (Client $c) => $c->set('k', 'v'), false],
            'kv.incr_by' => [static fn (Client $c) => $c->incrBy('k'), false],
            'lock.release' => [static fn (Client $c) => $c->releaseLock('l', 'token'), false],
            'a pipeline with one that does harm' => [
                static fn (Client $c) => $c->pipeline([['kv.ttl', ['key' => 'k']], ['kv.incr_by', ['key' => 'k']]]),
                false,
            ],
        ];
    }

    public function testOneSecondTryAndNoMore(): void
    {
        $tries = tempnam((string) getenv('COATCHECK_TEST_DIR'), 'tries');
        $peer = new BadPeer($this->socket, static function ($connection) use ($tries): void {
            BadPeer::readId($connection);
            file_put_contents($tries, 'x', FILE_APPEND);
        });
        try {
            $this->client()->get('key');
            self::fail('nothing was answered');
        } catch (ConnectionException $failure) {
            self::assertStringContainsString('closed the connection before it answered', $failure->getMessage());
        }
        self::assertSame('xx', file_get_contents($tries));
        self::assertFileExists($peer->socket);
    }

    public function testADaemonThatStopsIsAskedAgainUntilAnotherOneComes(): void
    {
        $peer = new BadPeer($this->socket, self::stopping(...));
        self::assertTrue($this->client()->set('key', 'v'), 'nothing was carried out, so even this is sent again');
        self::assertFileExists($peer->socket);
    }

    public function testADaemonThatStopsIsNotAskedAgainWhenOthersOfThePipelineMayBeDone(): void
    {
        $peer = new BadPeer($this->socket, static function ($connection): void {
            fwrite($connection, self::unavailable(BadPeer::readId($connection))
                . BadPeer::answer(BadPeer::readId($connection), 1));
            fread($connection, 1);
        });
        [$first, $second] = $this->client()->pipeline([['kv.incr_by', ['key' => 'a']], ['kv.incr_by', ['key' => 'b']]]);
        self::assertInstanceOf(UnavailableException::class, $first);
        self::assertFalse($first->outcomeIsUnknown());
        self::assertSame(1, $second);
        self::assertFileExists($peer->socket);
    }

    public function testWhoeverHoldsALockStaysWithTheDaemonThatKnowsIt(): void
    {
        $peer = new BadPeer($this->socket, static function ($connection, int $count): void {
            fwrite($connection, BadPeer::answer(BadPeer::readId($connection), ['fence' => 1, 'waited_ms' => 0]));
            fwrite($connection, self::unavailable(BadPeer::readId($connection)));
            fread($connection, 1);
        });
        $client = $this->client();
        $client->acquireLock('name', 'token', 30.0, bound: true);
        try {
            $client->get('key');
            self::fail('another connection was made');
        } catch (UnavailableException $failure) {
            self::assertStringContainsString($peer->socket, $failure->getMessage());
        }
    }

    /** @param resource $connection */
    private static function stopping($connection, int $count): void
    {
        $id = BadPeer::readId($connection);
        fwrite($connection, $count < 2 ? self::unavailable($id) : BadPeer::answer($id, true));
        fread($connection, 1);
    }

    private static function unavailable(int $id): string
    {
        return BadPeer::frame("\x94\x01\xce" . pack('N', $id) . "\x93\xabunavailable\xa8stopping\x80\xc0");
    }

    public function testAnotherVersionOfTheProtocolSaysSo(): void
    {
        $peer = new BadPeer($this->socket, static function ($connection): void {
            $id = BadPeer::readId($connection);
            fwrite($connection, BadPeer::frame("\x94\x01\xce" . pack('N', $id)
                . "\x93\xa8protocol\xb0speaks version 2\x80\xc0"));
            fread($connection, 1);
        }, greets: false);
        $this->expectException(ProtocolException::class);
        $this->expectExceptionMessage("$peer->socket: hello: speaks version 2");
        $this->client()->ping();
    }

    /**
     * @dataProvider impossibleLimits
     */
    #[DataProvider('impossibleLimits')]
    public function testALimitThatNoDaemonHasIsNotBelieved(mixed $maxFrame): void
    {
        $peer = new BadPeer($this->socket, static function ($connection): void {
            fwrite($connection, BadPeer::answer(BadPeer::readId($connection), 'value'));
            fread($connection, 1);
        }, maxFrame: $maxFrame);
        $this->expectException(ProtocolException::class);
        $this->expectExceptionMessage("$peer->socket: kv.get: the answer to hello names no max_frame");
        $this->client()->get('key');
    }

    /** @return iterable<int, array{mixed}> */
    public static function impossibleLimits(): iterable
    {
        foreach ([PHP_INT_MAX, (256 << 20) + 1, 0, -1, PHP_INT_MIN, 1e300, NAN, '65536', true, null, [65536]] as $limit) {
            yield [$limit];
        }
    }

    /** Not earlier, and on a busy machine not much later: what has no deadline would take ten times as long. */
    private static function assertTookAbout(float $seconds, float $began): void
    {
        $took = microtime(true) - $began;
        self::assertGreaterThanOrEqual($seconds - 0.01, $took);
        self::assertLessThan($seconds + 2.5, $took);
    }

    private function client(string $codec = 'auto', float $timeout = 5.0): Client
    {
        return Client::connect(
            $this->socket,
            ['transport' => 'stream', 'codec' => $codec, 'timeout' => $timeout, 'connect_timeout' => 0.5],
        );
    }
}
