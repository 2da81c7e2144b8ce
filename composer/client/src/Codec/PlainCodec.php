<?php

declare(strict_types=1);

namespace Coatcheck\Client\Codec;

/**
 * MessagePack in plain PHP, for sites without ext-msgpack.
 */
final class PlainCodec implements Codec
{
    public function encode(mixed $value): string
    {
        return Encoder::encode($value);
    }

    public function decode(string $bytes): mixed
    {
        Weight::check($bytes);
        return (new Decoder($bytes))->decode();
    }
}
