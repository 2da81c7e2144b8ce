<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Tests\Cache;

/**
 * Can be stored but not read back.
 */
final class Unreadable
{
    public function __serialize(): array
    {
        return [];
    }

    public function __unserialize(array $data): void
    {
        throw new \DomainException('not again');
    }
}
