<?php

declare(strict_types=1);

namespace Coatcheck\Client\Codec;

/**
 * Reads one MessagePack value from bytes of a peer that is not trusted.
 *
 * @internal
 */
final class Decoder
{
    private const MAX_DEPTH = 16;

    private int $at = 0;
    private readonly int $end;

    public function __construct(private readonly string $bytes)
    {
        $this->end = strlen($bytes);
    }

    public function decode(): mixed
    {
        $value = $this->value(0);
        if ($this->at !== $this->end) {
            throw new MalformedMessage('bytes are left over after the value');
        }
        return $value;
    }

    private function value(int $depth): mixed
    {
        $first = $this->number('C', 1);
        return match (true) {
            $first <= 0x7f => $first,
            $first <= 0x8f => $this->map($first & 0x0f, $depth),
            $first <= 0x9f => $this->list($first & 0x0f, $depth),
            $first <= 0xbf => $this->take($first & 0x1f),
            $first >= 0xe0 => $first - 0x100,
            default => $this->marked($first, $depth),
        };
    }

    private function marked(int $mark, int $depth): mixed
    {
        return match ($mark) {
            0xc0 => null,
            0xc2 => false,
            0xc3 => true,
            0xc4, 0xd9 => $this->take($this->number('C', 1)),
            0xc5, 0xda => $this->take($this->number('n', 2)),
            0xc6, 0xdb => $this->take($this->number('N', 4)),
            0xca => unpack('G', $this->take(4))[1],
            0xcb => unpack('E', $this->take(8))[1],
            0xcc => $this->number('C', 1),
            0xcd => $this->number('n', 2),
            0xce => $this->number('N', 4),
            0xcf => $this->unsigned(),
            0xd0 => $this->number('c', 1),
            0xd1 => ($this->number('n', 2) ^ 0x8000) - 0x8000,
            0xd2 => ($this->number('N', 4) ^ 0x80000000) - 0x80000000,
            0xd3 => $this->number('J', 8),
            0xdc => $this->list($this->number('n', 2), $depth),
            0xdd => $this->list($this->number('N', 4), $depth),
            0xde => $this->map($this->number('n', 2), $depth),
            0xdf => $this->map($this->number('N', 4), $depth),
            default => throw new MalformedMessage(sprintf('0x%02x begins no value of the protocol', $mark)),
        };
    }

    private function take(int $length): string
    {
        if ($length > $this->end - $this->at) {
            throw new MalformedMessage('a value is longer than its frame');
        }
        $this->at += $length;
        return substr($this->bytes, $this->at - $length, $length);
    }

    private function number(string $format, int $size): int
    {
        return unpack($format, $this->take($size))[1];
    }

    private function unsigned(): int
    {
        $number = $this->number('J', 8);
        if ($number < 0) {
            throw new MalformedMessage('an integer is above 2^63 - 1');
        }
        return $number;
    }

    /** A count beyond what is left needs no check of its own: nothing is allocated for it, and the bytes end first. */
    private function enter(int $depth): int
    {
        if ($depth >= self::MAX_DEPTH) {
            throw new MalformedMessage('lists or maps are nested too deep');
        }
        return $depth + 1;
    }

    /** @return list<mixed> */
    private function list(int $count, int $depth): array
    {
        $depth = $this->enter($depth);
        $list = [];
        while ($count-- > 0) {
            $list[] = $this->value($depth);
        }
        return $list;
    }

    /** @return array<array-key, mixed> */
    private function map(int $count, int $depth): array
    {
        $depth = $this->enter($depth);
        $map = [];
        while ($count-- > 0) {
            $key = $this->value($depth);
            if (!is_string($key)) {
                throw new MalformedMessage('the key of a map is not a string');
            }
            $map[$key] = $this->value($depth);
        }
        return $map;
    }
}
