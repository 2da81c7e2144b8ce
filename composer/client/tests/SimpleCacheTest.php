<?php

declare(strict_types=1);

namespace Coatcheck\Client\Tests;

use Coatcheck\Client\Bucket;
use Coatcheck\Client\Client;
use Coatcheck\Client\Exception\CacheFailure;
use Coatcheck\Client\Exception\ConnectionException;
use Coatcheck\Client\SimpleCache;
use Coatcheck\Tests\Packages\Daemon;
use PHPUnit\Framework\TestCase;
use Psr\SimpleCache\CacheException;

/**
 * What the PSR-16 cache promises beyond the PHP cache group's tests.
 */
final class SimpleCacheTest extends TestCase
{
    private Bucket $bucket;
    private SimpleCache $cache;

    protected function setUp(): void
    {
        $this->bucket = Client::connect(Daemon::sharedSocket())->bucket('simple');
        $this->bucket->flush();
        $this->cache = new SimpleCache($this->bucket);
    }

    public function testIntegersAreRawSoThatIncrementWorks(): void
    {
        $this->cache->set('n', 5, 100);
        self::assertSame(7, $this->cache->increment('n', 2));
        self::assertSame(7, $this->cache->get('n'));
        self::assertSame('7', $this->bucket->get('n'));
        self::assertGreaterThan(90_000, $this->bucket->ttlMs('n'));
    }

    public function testEveryTypeComesBackAsItWas(): void
    {
        $values = [
            'int' => -5, 'zero' => 0, 'max' => PHP_INT_MAX, 'text that looks like a number' => '5', 'false' => false,
            'null' => null, 'float' => 5.0, 'empty' => '', 'object' => new \ArrayObject([1]), 'bytes' => random_bytes(99),
        ];
        foreach ($values as $name => $value) {
            $this->cache->set('key', $value);
            is_object($value)
                ? self::assertEquals($value, $this->cache->get('key', 'miss'), $name)
                : self::assertSame($value, $this->cache->get('key', 'miss'), $name);
        }
    }

    public function testNumericKeysAreKept(): void
    {
        self::assertTrue($this->cache->setMultiple(['1' => 'one', 'a' => 'A', '12' => 'dozen']));
        $pairs = [];
        foreach ($this->cache->getMultiple(['12', 'x', '1']) as $key => $value) {
            $pairs[] = [$key, $value];
        }
        self::assertSame([['12', 'dozen'], ['x', null], ['1', 'one']], $pairs);
    }

    public function testWhatCannotBeReadBackIsAMiss(): void
    {
        $this->bucket->set('key', 'O:not serialised');
        self::assertSame('default', $this->cache->get('key', 'default'));
        self::assertSame(['key' => 'default'], $this->cache->getMultiple(['key'], 'default'));
    }

    public function testOnlyAllowedClassesAreMade(): void
    {
        $this->cache->set('key', new \ArrayObject());
        $careful = new SimpleCache($this->bucket, null, false);
        self::assertInstanceOf(\__PHP_Incomplete_Class::class, $careful->get('key'));
    }

    public function testALifeMayHaveADefault(): void
    {
        (new SimpleCache($this->bucket, 100))->setMultiple(['a' => 1, 'b' => 2]);
        self::assertGreaterThan(90_000, $this->bucket->ttlMs('b'));
        (new SimpleCache($this->bucket, 100))->set('a', 1, 1000);
        self::assertGreaterThan(900_000, $this->bucket->ttlMs('a'));
    }

    public function testClearTouchesThisBucketOnly(): void
    {
        $neighbour = new SimpleCache(Client::connect(Daemon::sharedSocket())->bucket('neighbour'));
        $neighbour->set('key', 'kept');
        $this->cache->set('key', 'gone');
        self::assertTrue($this->cache->clear());
        self::assertFalse($this->cache->has('key'));
        self::assertSame('kept', $neighbour->get('key'));
    }

    public function testAFailureIsNeverAMiss(): void
    {
        $socket = getenv('COATCHECK_TEST_DIR') . '/missing.sock';
        $cache = new SimpleCache(Client::connect($socket, ['transport' => 'stream'])->bucket('simple'));
        try {
            $cache->get('key', 'default');
            self::fail('nobody is there');
        } catch (CacheFailure $failure) {
            self::assertInstanceOf(CacheException::class, $failure);
            self::assertInstanceOf(ConnectionException::class, $failure->getPrevious());
        }
    }

    public function testIncrementOfWhatIsNoInteger(): void
    {
        $this->cache->set('key', 'text');
        $this->expectException(CacheFailure::class);
        $this->cache->increment('key');
    }
}
