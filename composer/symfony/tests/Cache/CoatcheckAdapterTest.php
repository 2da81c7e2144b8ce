<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Tests\Cache;

use Coatcheck\Client\Client;
use Coatcheck\Symfony\Cache\CoatcheckAdapter;
use Symfony\Component\Cache\Adapter\AdapterInterface;
use Symfony\Component\Cache\Adapter\TagAwareAdapter;
use Symfony\Component\Cache\Marshaller\MarshallerInterface;

final class CoatcheckAdapterTest extends PoolContract
{
    protected function pool(
        ?Client $client = null,
        string $namespace = '',
        int $defaultLifetime = 0,
        ?MarshallerInterface $marshaller = null,
    ): AdapterInterface {
        return new CoatcheckAdapter($client ?? self::client(), $this->name . $namespace, $defaultLifetime, $marshaller);
    }

    public function testClearWithoutANamespaceEmptiesThatBucket(): void
    {
        $pool = new CoatcheckAdapter(self::client(), bucket: $this->name);
        $pool->save($pool->getItem('key')->set('x'));

        self::assertTrue($pool->clear());
        self::assertFalse($pool->hasItem('key'));
    }

    public function testSymfonysTagAwareWrapperWorksOverIt(): void
    {
        $pool = new TagAwareAdapter($this->pool());
        $pool->save($pool->getItem('key')->set('x')->tag('red'));
        self::assertTrue($pool->hasItem('key'));

        $pool->invalidateTags(['red']);
        self::assertFalse($pool->hasItem('key'));
    }

    public function testVersionedNamespacesClear(): void
    {
        $pool = $this->pool();
        $pool->enableVersioning();
        $pool->save($pool->getItem('key')->set('x'));
        self::assertTrue($pool->hasItem('key'));

        self::assertTrue($pool->clear());
        self::assertFalse($pool->hasItem('key'));
        $pool->save($pool->getItem('key')->set('y'));
        self::assertSame('y', $pool->getItem('key')->get());
    }

    public function testASubNamespaceIsClearedAlone(): void
    {
        $pool = $this->pool();
        if (!method_exists($pool, 'withSubNamespace')) {
            self::assertFalse(interface_exists(\Symfony\Contracts\Cache\NamespacedPoolInterface::class, false));
            return;
        }
        $sub = $pool->withSubNamespace('sub');
        $pool->save($pool->getItem('key')->set('root'));
        $sub->save($sub->getItem('key')->set('sub'));
        self::assertSame('root', $pool->getItem('key')->get());
        self::assertSame('sub', $sub->getItem('key')->get());

        $sub->clear();
        self::assertFalse($sub->hasItem('key'));
        self::assertTrue($pool->hasItem('key'));
    }
}
