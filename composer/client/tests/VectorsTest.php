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

    private static function bytes(mixed $value): mixed
    {
        if (!is_array($value)) {
            return $value;
        }
        return array_keys($value) === ['$hex'] ? hex2bin($value['$hex']) : array_map(self::bytes(...), $value);
    }
}
