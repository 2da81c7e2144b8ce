<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Tests\Cache;

use Cache\IntegrationTests\CachePoolTest;
use Coatcheck\Symfony\Cache\CoatcheckAdapter;
use Coatcheck\Symfony\Tests\AsksDaemon;
use Psr\Cache\CacheItemPoolInterface;

/**
 * The PSR-6 suite of php-cache.
 */
final class PsrPoolTest extends CachePoolTest
{
    use AsksDaemon;

    private string $name;

    public function createCachePool(): CacheItemPoolInterface
    {
        $this->name ??= self::freshName();
        return new CoatcheckAdapter(self::client(), $this->name);
    }
}
