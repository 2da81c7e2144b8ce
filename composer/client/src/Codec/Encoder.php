<?php

declare(strict_types=1);

namespace Coatcheck\Client\Codec;

use Coatcheck\Client\Exception\InvalidArgumentException;

/**
 * PHP values as MessagePack, each in its shortest form.
 *
 * @internal
 */
final class Encoder
{
    /** Of the 16 that the protocol allows, the message itself is one and the parameters are the next. */
    private const MAX_DEPTH = 15;

    public static function encode(mixed $value, int $depth = 0): string
    {
        return match (true) {
            is_string($value) => self::string($value),
            is_int($value) => self::integer($value),
            $value === null => "\xc0",
            is_bool($value) => $value ? "\xc3" : "\xc2",
            is_float($value) => "\xcb" . pack('E', $value),
            is_array($value) => self::container($value, $depth),
            default => throw new InvalidArgumentException(
                'only null, bool, int, float, string and array can be sent, not ' . get_debug_type($value)
            ),
        };
    }

    /** @param array<string, mixed> $map */
    public static function map(array $map, int $depth = 0): string
    {
        $packed = self::header(count($map), 0x80, "\xde", "\xdf");
        foreach ($map as $key => $value) {
            $packed .= self::string((string) $key) . self::encode($value, $depth + 1);
        }
        return $packed;
    }

    public static function integer(int $value): string
    {
        return match (true) {
            $value >= 0 => match (true) {
                $value <= 0x7f => chr($value),
                $value <= 0xff => "\xcc" . chr($value),
                $value <= 0xffff => "\xcd" . pack('n', $value),
                $value <= 0xffffffff => "\xce" . pack('N', $value),
                default => "\xcf" . pack('J', $value),
            },
            $value >= -32 => chr($value & 0xff),
            $value >= -0x80 => "\xd0" . chr($value & 0xff),
            $value >= -0x8000 => "\xd1" . pack('n', $value & 0xffff),
            $value >= -0x80000000 => "\xd2" . pack('N', $value & 0xffffffff),
            default => "\xd3" . pack('J', $value),
        };
    }

    public static function string(string $bytes): string
    {
        $length = strlen($bytes);
        return match (true) {
            $length <= 31 => chr(0xa0 | $length),
            $length <= 0xff => "\xd9" . chr($length),
            $length <= 0xffff => "\xda" . pack('n', $length),
            default => "\xdb" . pack('N', $length),
        } . $bytes;
    }

    /** @param array<array-key, mixed> $array */
    private static function container(array $array, int $depth): string
    {
        if ($depth >= self::MAX_DEPTH) {
            throw new InvalidArgumentException('arrays must not be nested more than ' . self::MAX_DEPTH . ' deep');
        }
        if (!array_is_list($array)) {
            return self::map($array, $depth);
        }
        $packed = self::header(count($array), 0x90, "\xdc", "\xdd");
        foreach ($array as $value) {
            $packed .= self::encode($value, $depth + 1);
        }
        return $packed;
    }

    private static function header(int $count, int $fix, string $mark16, string $mark32): string
    {
        return match (true) {
            $count <= 15 => chr($fix | $count),
            $count <= 0xffff => $mark16 . pack('n', $count),
            default => $mark32 . pack('N', $count),
        };
    }
}
