<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Tests;

use Coatcheck\Client\Client;
use Coatcheck\Laravel\Cache\CoatcheckStore;
use Coatcheck\Laravel\Tests\Support\LaravelTestCase;
use Coatcheck\Tests\Packages\Daemon;
use PHPUnit\Framework\Attributes\DataProvider;

/**
 * However values are written and read, a lock's token is compared as plain bytes and a counter is a number. (phpredis
 * compared serialised tokens, so no lock was ever released.)
 */
final class CodecTest extends LaravelTestCase
{
    /** @return iterable<string, array{array<string, mixed>}> */
    public static function ways(): iterable
    {
        yield 'as the suite runs' => [[]];
        yield 'stream, ext-msgpack where it is loaded' => [['transport' => 'stream']];
        yield 'stream, plain PHP' => [['transport' => 'stream', 'codec' => 'plain']];
    }

    /**
     * @dataProvider ways
     * @param array<string, mixed> $options
     */
    #[DataProvider('ways')]
    public function testLocksAndCountersAndValues(array $options): void
    {
        $store = new CoatcheckStore(Client::connect(Daemon::sharedSocket(), $options), $this->prefix);
        foreach ([null, 'short', "\0\xff binary", str_repeat('long', 50), 's:5:"owner";', '7'] as $owner) {
            $lock = $store->lock('foo', 60, $owner);
            self::assertTrue($lock->get());
            self::assertTrue($lock->isOwnedByCurrentProcess());
            self::assertTrue($this->store()->restoreLock('foo', $lock->owner())->release());
            self::assertFalse($lock->release());
        }
        $store->put('n', 5, 60);
        self::assertSame(7, $store->increment('n', 2));
        self::assertSame(7, $this->store()->get('n'));
        $store->putMany(['a' => 7, 'b' => [1.5, null, "\xff"]], 60);
        self::assertSame(['a' => 7, 'b' => [1.5, null, "\xff"], 'c' => null], $store->many(['a', 'b', 'c']));
        self::assertSame(8, $store->tags('t')->increment('n', 8));
        self::assertSame(8, $this->store()->tags('t')->get('n'));
    }
}
