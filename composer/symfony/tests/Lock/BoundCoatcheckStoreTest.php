<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Tests\Lock;

use Coatcheck\Client\Client;
use Coatcheck\Symfony\Lock\BoundCoatcheckStore;
use Coatcheck\Tests\Packages\Child;
use Coatcheck\Tests\Packages\Daemon;
use Symfony\Component\Lock\Exception\UnserializableKeyException;
use Symfony\Component\Lock\Key;

final class BoundCoatcheckStoreTest extends LockStoreContract
{
    protected function store(?Client $client = null, ?float $maxWait = null, float $lease = 30.0): BoundCoatcheckStore
    {
        return new BoundCoatcheckStore($client ?? self::client(), $lease, $maxWait);
    }

    public function testItsKeysCannotBeSerialised(): void
    {
        $store = $this->store();
        $store->save($key = new Key($this->name));

        $this->expectException(UnserializableKeyException::class);
        try {
            serialize($key);
        } finally {
            $store->delete($key);
        }
    }

    public function testTheLockLastsAsLongAsItsProcess(): void
    {
        $store = $this->store(lease: 1.0);
        $store->save($key = new Key($this->name));
        usleep(2_000_000);

        self::assertTrue($store->exists($key), 'the daemon has renewed it');
        self::assertNull($key->getRemainingLifetime());
        $store->delete($key);
    }

    public function testTheLockIsFreeWhenItsProcessDies(): void
    {
        $child = Child::fork(function (callable $tell): void {
            $store = $this->store();
            $store->save(new Key($this->name));
            $tell('held');
            sleep(60);
        });
        self::assertSame('held', $child->tells());
        $store = $this->store();
        self::assertConflict(fn () => $store->save(new Key($this->name)));

        $child->kill();

        $free = microtime(true);
        $store->waitAndSave($key = new Key($this->name));
        self::assertLessThan(2.0, microtime(true) - $free, 'long before its lease of 30 s');
        $store->delete($key);
    }
}
