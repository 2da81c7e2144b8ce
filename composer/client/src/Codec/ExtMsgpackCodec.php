<?php

declare(strict_types=1);

namespace Coatcheck\Client\Codec;

/**
 * Reads with ext-msgpack, which is faster for large lists. It writes with the encoder of this package: ext-msgpack
 * would send objects where the daemon wants none.
 */
final class ExtMsgpackCodec implements Codec
{
    private readonly \MessagePack $messagePack;

    public function __construct()
    {
        // false: what looks like a PHP object is plain data and instantiates nothing
        $this->messagePack = new \MessagePack(false);
    }

    public static function isAvailable(): bool
    {
        return class_exists(\MessagePack::class, false);
    }

    public function encode(mixed $value): string
    {
        return Encoder::encode($value);
    }

    public function decode(string $bytes): mixed
    {
        Weight::check($bytes);
        $value = @$this->messagePack->unpack($bytes);
        if ($value === false && $bytes !== "\xc2") {
            throw new MalformedMessage('ext-msgpack cannot read it');
        }
        return $value;
    }
}
