<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Tests\Cache;

use Cache\IntegrationTests\SimpleCacheTest;
use Coatcheck\Symfony\Cache\CoatcheckAdapter;
use Coatcheck\Symfony\Tests\AsksDaemon;
use Psr\SimpleCache\CacheInterface;
use Symfony\Component\Cache\Psr16Cache;

/**
 * The PSR-16 suite of php-cache, through Symfony's PSR-16 face of a pool.
 */
final class PsrSimpleCacheTest extends SimpleCacheTest
{
    use AsksDaemon;

    private string $name;

    public function createSimpleCache(): CacheInterface
    {
        $this->name ??= self::freshName();
        return new Psr16Cache(new CoatcheckAdapter(self::client(), $this->name));
    }
}
