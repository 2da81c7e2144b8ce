<?php

declare(strict_types=1);

namespace Coatcheck\Client\Codec;

/**
 * MessagePack, as much of it as the protocol uses: nil, booleans, integers, floats, strings, bytes, lists and maps.
 */
interface Codec
{
    /**
     * A list becomes an array, any other PHP array a map; strings become str.
     *
     * @throws \Coatcheck\Client\Exception\InvalidArgumentException when the value holds an object or resource
     */
    public function encode(mixed $value): string;

    /**
     * The value of exactly these bytes, which come from a peer that is not trusted: no length in them leads
     * to an allocation that the bytes do not pay for, and what memory_limit has no room for is not decoded at all.
     *
     * @throws MalformedMessage when the bytes are not one value, or one too large for this process
     */
    public function decode(string $bytes): mixed;
}
