<?php

declare(strict_types=1);

namespace Coatcheck\Client\Tests\Contract;

use Coatcheck\Tests\Packages\Child;

trait ForkCases
{
    public function testAForkedChildMixesNoAnswers(): void
    {
        $this->client->set('who', 'parent');
        $child = Child::fork(function (): array {
            $seen = [];
            for ($i = 0; $i < 200; $i++) {
                $this->client->set("child$i", "c$i");
                $seen[] = $this->client->get("child$i") === "c$i" && $this->client->get('who') === 'parent';
            }
            return array_unique($seen);
        });
        for ($i = 0; $i < 200; $i++) {
            $this->client->set("parent$i", "p$i");
            self::assertSame("p$i", $this->client->get("parent$i"));
        }
        self::assertSame([true], $child->tells());
        $child->await();
    }

    public function testAForkedChildReleasesNothingOfItsParents(): void
    {
        $lock = $this->client->lock(self::fresh('lock'));
        self::assertTrue($lock->acquire());
        $child = Child::fork(function () use (&$lock): array {
            $told = [$lock->release(), $lock->renew(), $lock->isAcquired()];
            $lock->__destruct();
            $lock = null;
            $this->client->ping();
            return $told;
        });
        self::assertSame([false, false, false], $child->tells());
        $child->await();
        self::assertTrue($lock->isAcquired());
        self::assertTrue($lock->release());
    }

    public function testAForkedChildMayTakeALockOfItsOwn(): void
    {
        $lock = $this->client->lock(self::fresh('lock'));
        $lock->acquire();
        $child = Child::fork(static fn (): array => [$lock->acquire(), $lock->busy()?->holder()['pid']]);
        self::assertSame([false, getmypid()], $child->tells());
        $child->await();
        self::assertTrue($lock->release());
    }
}
