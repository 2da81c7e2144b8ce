<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Tests\Bundle;

use Coatcheck\Client\Client;
use Psr\Cache\CacheItemPoolInterface;
use Symfony\Component\Lock\LockFactory;
use Symfony\Contracts\Cache\CacheInterface;
use Symfony\Contracts\Cache\TagAwareCacheInterface;

/**
 * A service of an application, with everything that it can have wired by type and name.
 */
final class Consumer
{
    public function __construct(
        public readonly CacheInterface $plain,
        public readonly TagAwareCacheInterface $tagged,
        public readonly TagAwareCacheInterface $wrapped,
        public readonly CacheItemPoolInterface $app,
        public readonly TagAwareCacheInterface $appTagged,
        public readonly LockFactory $locks,
        public readonly Client $client,
    ) {
    }
}
