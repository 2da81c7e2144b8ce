<?php

declare(strict_types=1);

namespace Coatcheck\Client\Codec;

/**
 * What a message costs in memory once it is decoded: a byte that says nil or "empty map" becomes up to 400 of them. PHP
 * ends the process that runs out of memory, so whoever sends such bytes must not get that far.
 *
 * It counts without decoding, passes over strings, and does not count what is too short to weigh much.
 *
 * @internal
 */
final class Weight
{
    /** What a byte can weigh at most: an empty list in a list. */
    private const WORST_BYTES = self::VALUE_BYTES + self::CONTAINER_BYTES;

    /** Where memory_limit sets no bound. More than the answers of a daemon with the usual limits.max_frame can weigh. */
    private const HIGHEST_BYTES = 1 << 30;

    /** Of memory_limit, for what the answer is made of later. */
    private const SPARE_BYTES = 4 << 20;

    /** An array grows by doubling and is copied, so it takes up to three times its 16 bytes a value or 36 a pair. */
    private const VALUE_BYTES = 48;
    private const PAIR_BYTES = 108;
    private const CONTAINER_BYTES = 384;
    private const STRING_BYTES = 32;

    /** How many bytes the number of a mark has, be it a length, a count or the value. */
    private const NUMBER_BYTES = [
        0xc4 => 1, 0xc5 => 2, 0xc6 => 4, 0xca => 4, 0xcb => 8, 0xcc => 1, 0xcd => 2, 0xce => 4, 0xcf => 8, 0xd0 => 1,
        0xd1 => 2, 0xd2 => 4, 0xd3 => 8, 0xd9 => 1, 0xda => 2, 0xdb => 4, 0xdc => 2, 0xdd => 4, 0xde => 2, 0xdf => 4,
    ];

    private const KINDS = [
        0x80 => 'map', 0x90 => 'list', 0xc4 => 'string', 0xc5 => 'string', 0xc6 => 'string', 0xd9 => 'string',
        0xda => 'string', 0xdb => 'string', 0xdc => 'list', 0xdd => 'list', 0xde => 'map', 0xdf => 'map',
    ];

    /**
     * Bytes that are no message pass; the codec refuses them.
     *
     * @throws MalformedMessage when this process has no memory for the value
     */
    public static function check(string $bytes): void
    {
        $bound = self::bound();
        if (strlen($bytes) * self::WORST_BYTES > $bound && self::exceeds($bytes, $bound)) {
            throw new MalformedMessage(sprintf(
                'its values do not fit into the %d MB that memory_limit leaves',
                max(0, $bound) >> 20,
            ));
        }
    }

    /** One loop without calls of our own: a list may have a million strings, and ext-msgpack reads them in no time. */
    private static function exceeds(string $bytes, int $bound): bool
    {
        $weight = 0;
        $end = strlen($bytes);
        for ($at = 0, $due = 1; $due > 0 && $at < $end && $weight <= $bound; $due--) {
            $mark = \ord($bytes[$at++]);
            if ($mark <= 0x7f || $mark >= 0xe0) {
                continue;
            }
            if ($mark >= 0xa0 && $mark <= 0xbf) {
                $at += $mark & 0x1f;
                $weight += self::STRING_BYTES + ($mark & 0x1f);
                continue;
            }
            if ($mark <= 0x9f) {
                $number = $mark & 0x0f;
            } else {
                $size = self::NUMBER_BYTES[$mark] ?? 0;
                if ($at + $size > $end) {
                    return false; // cut short: the codec refuses it
                }
                $number = match ($size) {
                    1 => \ord($bytes[$at]),
                    2 => \unpack('n', $bytes, $at)[1],
                    4 => \unpack('N', $bytes, $at)[1],
                    default => 0,
                };
                $at += $size;
            }
            switch (self::KINDS[$mark >= 0xc0 ? $mark : $mark & 0xf0] ?? '') {
                case 'string':
                    $at += $number;
                    $weight += self::STRING_BYTES + $number;
                    break;
                case 'list':
                    $due += $number;
                    $weight += self::CONTAINER_BYTES + $number * self::VALUE_BYTES;
                    break;
                case 'map':
                    $due += 2 * $number;
                    $weight += self::CONTAINER_BYTES + $number * self::PAIR_BYTES;
                    break;
            }
        }
        return $weight > $bound;
    }

    private static function bound(): int
    {
        $limit = self::memoryLimit();
        return $limit <= 0
            ? self::HIGHEST_BYTES
            : min(self::HIGHEST_BYTES, $limit - memory_get_usage() - self::SPARE_BYTES);
    }

    /** In bytes; 0 or less for none. */
    private static function memoryLimit(): int
    {
        $setting = trim((string) ini_get('memory_limit'));
        return (int) $setting << match (strtolower(substr($setting, -1))) {
            'g' => 30,
            'm' => 20,
            'k' => 10,
            default => 0,
        };
    }
}
