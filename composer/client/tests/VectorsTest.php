<?php

declare(strict_types=1);

namespace Coatcheck\Client\Tests;

use Coatcheck\Client\Codec\Codec;
use Coatcheck\Client\Codec\ExtMsgpackCodec;
use Coatcheck\Client\Codec\MalformedMessage;
use Coatcheck\Client\Codec\PlainCodec;
use Coatcheck\Client\Exception\Failures;
use Coatcheck\Client\Transport\Exchange;
use PHPUnit\Framework\Attributes\DataProvider;
use PHPUnit\Framework\TestCase;

/**
 * Both codecs write and read the frames of tests/vectors byte by byte.
 */
final class VectorsTest extends TestCase
{
    private const FILE = __DIR__ . '/../../../tests/vectors/messages.json';

    /**
     * @dataProvider vectors
     *
     * @param array<string, mixed> $vector
     */
    #[DataProvider('vectors')]
    public function testFrame(Codec $codec, array $vector): void
    {
        ['method' => $method, 'params' => $params] = $vector['request'];
        self::assertSame($vector['request_hex'], bin2hex(Exchange::frame($codec, 1, $method, self::bytes($params))));

        $frame = hex2bin($vector['response_hex']);
        self::assertSame(strlen($frame) - 4, unpack('N', $frame)[1]);
        [$type, $id, $error, $result] = $codec->decode(substr($frame, 4));
        self::assertSame([1, 1], [$type, $id]);
        if (isset($vector['error'])) {
            $failure = Failures::ofDaemon('/socket', $method, $error);
            self::assertSame($vector['error'], $error);
            self::assertSame($vector['error'][2]['reason'] ?? '', $failure->reason());
        } else {
            self::assertNull($error);
            self::assertSame(self::bytes($vector['result']), $result);
        }
    }

    /** @return iterable<string, array{Codec, array<string, mixed>}> */
    public static function vectors(): iterable
    {
        $vectors = json_decode(file_get_contents(self::FILE), true, 64, JSON_THROW_ON_ERROR);
        foreach ([new PlainCodec(), new ExtMsgpackCodec()] as $codec) {
            foreach ($vectors as $vector) {
                yield $vector['name'] . ' (' . $codec::class . ')' => [$codec, $vector];
            }
        }
    }

    public function testThereAreVectors(): void
    {
        self::assertGreaterThan(60, iterator_count(self::vectors()));
    }

    public function testEveryIntegerComesBack(): void
    {
        $codec = new PlainCodec();
        $edges = [0, 31, 32, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2 ** 31, 2 ** 32, PHP_INT_MAX];
        foreach ([...$edges, ...array_map(static fn (int $n) => -$n, $edges), PHP_INT_MIN, -33, -129] as $number) {
            self::assertSame($number, $codec->decode($codec->encode($number)));
            self::assertSame(msgpack_pack($number), $codec->encode($number));
        }
    }

    public function testValuesComeBack(): void
    {
        $codec = new PlainCodec();
        $values = [
            null, true, false, 1.5, -0.25, '', "\0\xff", str_repeat('x', 70_000), [], [1, [2, ['a' => null]]],
            ['k' => 'v'] + array_fill(100, 20, 'n'), range(1, 70_000),
        ];
        foreach ($values as $value) {
            self::assertSame($value, $codec->decode($codec->encode($value)));
        }
    }

    /**
     * Bytes cut short or changed are refused or read as something else, and never an error of PHP or a loop.
     */
    public function testDamagedBytesAreHarmless(): void
    {
        mt_srand(1);
        $read = 0;
        foreach (json_decode(file_get_contents(self::FILE), true) as $vector) {
            $body = substr(hex2bin($vector['response_hex']), 4);
            for ($try = 0; $try < 200; $try++) {
                $damaged = $try < strlen($body) ? substr($body, 0, $try) : $body;
                if ($try >= strlen($body)) {
                    $damaged[mt_rand(0, strlen($body) - 1)] = chr(mt_rand(0, 255));
                }
                try {
                    (new PlainCodec())->decode($damaged);
                    $read++;
                } catch (MalformedMessage $malformed) {
                    self::assertNotSame('', $malformed->getMessage());
                }
            }
        }
        self::assertGreaterThan(0, $read);
    }

    /**
     * @dataProvider bombs
     */
    #[DataProvider('bombs')]
    public function testWhatMemoryLimitHasNoRoomForIsRefusedAndNoFatalError(Codec $codec, string $mark, string $value): void
    {
        $count = intdiv(4 << 20, strlen($value));
        $bytes = $mark . pack('N', $count) . str_repeat($value, $count);
        $before = ini_get('memory_limit');
        foreach ([memory_get_usage() + (64 << 20), (memory_get_usage() >> 10) + (64 << 10) . 'K'] as $limit) {
            ini_set('memory_limit', (string) $limit);
            try {
                $codec->decode($bytes);
                self::fail('it was decoded');
            } catch (MalformedMessage $malformed) {
                self::assertMatchesRegularExpression('/the (59|60) MB that memory_limit/', $malformed->getMessage());
            } finally {
                ini_set('memory_limit', $before);
            }
        }
    }

    /** @return iterable<string, array{Codec, string, string}> */
    public static function bombs(): iterable
    {
        $bombs = [
            'nils' => ["\xdd", "\xc0"],
            'empty lists' => ["\xdd", "\x90"],
            'lists of one' => ["\xdd", "\x91\xc0"],
            'maps of one' => ["\xdd", "\x81\xa0\xc0"],
            'lists of eight, counted long' => ["\xdd", "\xdc\0\x08\1\2\3\4\5\6\7\xff"],
            'maps, counted long' => ["\xdd", "\xde\0\1\xa0\xdf\0\0\0\1\xa1k\xcc\x80"],
            'short strings' => ["\xdd", "\xa1x"],
            'short bytes' => ["\xdd", "\xc4\1x"],
            'a map' => ["\xdf", "\xa1xx"],
        ];
        foreach ([new PlainCodec(), new ExtMsgpackCodec()] as $codec) {
            foreach ($bombs as $name => $bomb) {
                yield "$name (" . $codec::class . ')' => [$codec, ...$bomb];
            }
        }
    }

    public function testLargeMessagesThatFitComeBackFromBothCodecs(): void
    {
        $values = [
            'text' => str_repeat("\x80\xdf\xff\xff\xff\xff", 1 << 20),
            'short' => array_map(strval(...), range(1, 100_000)),
            'integers' => range(-100_000, 100_000, 7),
            'floats' => array_fill(0, 1000, 0.5),
            'long' => array_fill(0, 5, str_repeat('y', 300)),
            'maps' => array_fill(0, 10_000, ['key' => true, 'list' => [null, [1.5]]]),
            'map' => array_combine(array_map(static fn (int $n) => "k$n", range(1, 70_000)), range(1, 70_000)),
        ];
        $bytes = (new PlainCodec())->encode($values);
        $before = ini_get('memory_limit');
        try {
            foreach (['-1', '1G', '384M'] as $limit) {
                ini_set('memory_limit', $limit);
                self::assertTrue($values === (new PlainCodec())->decode($bytes));
                self::assertTrue($values === (new ExtMsgpackCodec())->decode($bytes));
            }
        } finally {
            ini_set('memory_limit', $before);
        }
    }

    public function testLargeMessagesThatAreCutShortAreMalformed(): void
    {
        $bytes = (new PlainCodec())->encode([str_repeat('x', 2 << 20), 300]);
        foreach ([strlen($bytes) - 1, strlen($bytes) - 2, 2 << 20] as $length) {
            foreach ([new PlainCodec(), new ExtMsgpackCodec()] as $codec) {
                try {
                    $codec->decode(substr($bytes, 0, $length));
                    self::fail('it was decoded');
                } catch (MalformedMessage $malformed) {
                    self::assertStringNotContainsString('memory_limit', $malformed->getMessage());
                }
            }
        }
    }

    private static function bytes(mixed $value): mixed
    {
        if (!is_array($value)) {
            return $value;
        }
        return array_keys($value) === ['$hex'] ? hex2bin($value['$hex']) : array_map(self::bytes(...), $value);
    }
}
