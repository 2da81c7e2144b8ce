<?php

declare(strict_types=1);

namespace Coatcheck\WordPress;

use Coatcheck\Client\Serializer;

/**
 * PHP values as the daemon's strings and back.
 */
final class Codec
{
    private readonly Serializer $serializer;

    public function __construct()
    {
        $this->serializer = new Serializer();
    }

    /** @return string|null null for what cannot leave the PHP request, such as a closure */
    public function encode(mixed $value): ?string
    {
        try {
            return $this->serializer->serialize($value);
        } catch (\Throwable) {
            return null;
        }
    }

    /** @return array{mixed}|null null for what cannot be read, because its bytes or its class are broken */
    public function decode(string $stored): ?array
    {
        try {
            return [$this->serializer->unserialize($stored)];
        } catch (\Throwable) {
            return null;
        }
    }
}
