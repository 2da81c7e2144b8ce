<?php

declare(strict_types=1);

namespace Coatcheck\Client\Tests;

use Cache\IntegrationTests\SimpleCacheTest;
use Coatcheck\Client\Client;
use Coatcheck\Client\SimpleCache;
use Coatcheck\Tests\Packages\Daemon;
use Psr\SimpleCache\CacheInterface;

/**
 * The PHP cache group's tests of PSR-16, over whichever transport Client::connect() chooses. None is skipped.
 */
final class SimpleCacheSuiteTest extends SimpleCacheTest
{
    public function createSimpleCache(): CacheInterface
    {
        return new SimpleCache(Client::connect(Daemon::sharedSocket())->bucket('psr-16'));
    }
}
