<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Tests;

use Coatcheck\Client\Client;
use Coatcheck\Client\Exception\BusyException;
use Coatcheck\Client\Exception\RequestFailed;
use Coatcheck\Client\Exception\TimeoutException;
use Coatcheck\Laravel\Session\CoatcheckSessionHandler;
use Coatcheck\Laravel\Session\CurrentRequest;
use Coatcheck\Laravel\Session\SessionOptions;
use Coatcheck\Laravel\Tests\Support\CountingTransport;
use Coatcheck\Laravel\Tests\Support\LaravelTestCase;
use Coatcheck\Tests\Packages\Child;
use Coatcheck\Tests\Packages\Daemon;

/**
 * The session handler alone. Two handlers stand for two requests.
 */
final class SessionHandlerTest extends LaravelTestCase
{
    private string $id;

    protected function setUp(): void
    {
        parent::setUp();
        $this->id = bin2hex(random_bytes(20));
    }

    public function testAMissingSessionIsEmptyAndASavedOneComesBack(): void
    {
        $first = $this->handler();
        self::assertSame('', $first->read($this->id));
        self::assertTrue($first->write($this->id, "data with \0 in it"));
        self::assertSame("data with \0 in it", $this->handler()->read($this->id));
    }

    public function testALockedRequestCostsTwoRoundTrips(): void
    {
        $this->save('before');
        $transport = new CountingTransport($this->client()->transport);
        $handler = $this->handlerOf(new Client($transport));
        $handler->read($this->id);
        $handler->write($this->id, 'after');
        $handler->end();
        self::assertSame(2, $transport->roundTrips);
        $handler->read($this->id);
        $handler->write($this->id, 'after');
        $handler->end();
        self::assertSame(4, $transport->roundTrips);
        self::assertTrue($transport->lastParams['touch'], 'unchanged data is not sent again');
    }

    public function testReadTakesTheLockAndWriteGivesItBack(): void
    {
        $handler = $this->handler();
        $handler->read($this->id);
        self::assertTrue($this->isLocked());
        $handler->write($this->id, 'data');
        self::assertFalse($this->isLocked());
    }

    public function testTheNextRequestWaitsForTheOneBeforeItAndSeesWhatItSaved(): void
    {
        $first = $this->handler();
        $first->read($this->id);
        $child = Child::fork(function (callable $tell): array {
            $tell('asks');
            return [$this->handler()->read($this->id), microtime(true)];
        });
        $child->tells();
        self::eventually('the daemon has a waiter', fn () => $this->waiters() === 1);
        $first->write($this->id, 'from the first');
        $saved = microtime(true);
        [$data, $read] = $child->tells();
        self::assertSame('from the first', $data);
        self::assertLessThan(0.2, $read - $saved);
        $child->await();
    }

    public function testTwentyRequestsAtOnceKeepTwenty(): void
    {
        $children = [];
        for ($i = 0; $i < 20; $i++) {
            $children[] = Child::fork(function () {
                $handler = $this->handler();
                $n = (int) $handler->read($this->id);
                return $handler->write($this->id, (string) ($n + 1));
            });
        }
        foreach ($children as $child) {
            self::assertTrue($child->tells());
            $child->await();
        }
        self::assertSame('20', $this->handler()->read($this->id));
    }

    public function testADeadRequestsLockIsFreeAtOnce(): void
    {
        $child = Child::fork(function (callable $tell): void {
            $handler = $this->handler();
            $handler->read($this->id);
            $tell('holds');
            sleep(60);
        });
        $child->tells();
        self::assertTrue($this->isLocked());
        $child->kill();
        $from = hrtime(true);
        self::assertSame('', $this->handler()->read($this->id));
        self::assertLessThan(1.0, (hrtime(true) - $from) / 1e9);
    }

    public function testARequestThatNeverSavesGivesTheLockBackAtItsEnd(): void
    {
        $handler = $this->handler();
        $handler->read($this->id);
        $handler->end();
        self::assertFalse($this->isLocked());
    }

    public function testAForgottenHandlerGivesTheLockBack(): void
    {
        $handler = $this->handlerOf($this->client());
        $handler->read($this->id);
        self::assertTrue($this->isLocked());
        unset($handler);
        self::assertFalse($this->isLocked());
    }

    public function testCloseGivesTheLockBack(): void
    {
        $handler = $this->handler();
        self::assertTrue($handler->open('', 'name'));
        $handler->read($this->id);
        self::assertTrue($handler->close());
        self::assertFalse($this->isLocked());
    }

    public function testReadingAgainIsTheSameRequest(): void
    {
        $handler = $this->handler();
        $handler->read($this->id);
        self::assertSame('', $handler->read($this->id));
        $handler->write($this->id, 'data');
        self::assertFalse($this->isLocked());
        self::assertSame('data', $handler->read($this->id));
        self::assertTrue($this->isLocked());
    }

    public function testAWriterWhoseSessionWentToAnotherIsRefusedAndTheLogSaysWhy(): void
    {
        $first = $this->handler();
        $first->read($this->id);
        $this->client()->forceReleaseSession($this->id, $this->prefix);
        $second = $this->handler();
        $second->read($this->id);
        $second->write($this->id, 'from the second');

        self::assertFalse($first->write($this->id, 'from the first'));
        self::assertSame('from the second', $this->handler()->read($this->id));
        self::assertCount(1, $this->log->lines);
        self::assertStringContainsString('error: coatcheck: the session was not saved', $this->log->lines[0]);
        self::assertStringContainsString('"reason":"superseded"', $this->log->lines[0]);
        self::assertStringNotContainsString($this->id, $this->log->lines[0]);
    }

    public function testALeaseThatRanOutWhileNobodyCameDoesNotRefuse(): void
    {
        $first = $this->handler();
        $first->read($this->id);
        $this->client()->forceReleaseSession($this->id, $this->prefix);
        self::assertTrue($first->write($this->id, 'data'));
        self::assertSame([], $this->log->lines);
    }

    public function testAWriteAfterALogOutElsewhereIsRefused(): void
    {
        $this->save('logged in');
        $first = $this->handler();
        $first->read($this->id);
        self::assertTrue($this->handler()->destroy($this->id));
        self::assertFalse($first->write($this->id, 'logged in, and more'));
        self::assertStringContainsString('"reason":"destroyed"', $this->log->lines[0]);
        self::assertFalse($this->client()->sessionExists($this->id, $this->prefix));
        self::assertSame('', $this->handler()->read($this->id));
    }

    public function testUnchangedDataOfADestroyedSessionIsRefusedToo(): void
    {
        $this->save('logged in');
        $first = $this->handler();
        $first->read($this->id);
        $this->handler()->destroy($this->id);
        self::assertFalse($first->write($this->id, 'logged in'));
        self::assertFalse($this->client()->sessionExists($this->id, $this->prefix));
    }

    public function testDestroyDeletesAndGivesTheLockBack(): void
    {
        $this->save('data');
        $handler = $this->handler();
        $handler->read($this->id);
        self::assertTrue($handler->destroy($this->id));
        self::assertFalse($this->isLocked());
        self::assertFalse($handler->write($this->id, 'comes back'), 'its own session, destroyed in this request');
        self::assertSame([], $this->log->lines);
        self::assertSame('', $handler->read($this->id));
        self::assertTrue($handler->write($this->id, 'a new session of that id'));
        self::assertSame('a new session of that id', $this->handler()->read($this->id));
    }

    public function testDestroyOfAMissingSessionIsNoFailure(): void
    {
        self::assertTrue($this->handler()->destroy($this->id));
    }

    public function testAnIdThatNobodyReadIsSaved(): void
    {
        self::assertTrue($this->handler()->write($this->id, 'migrated'));
        self::assertSame('migrated', $this->handler()->read($this->id));
    }

    public function testTheOldIdIsGivenBackWhenTheSessionMovesOn(): void
    {
        $this->save('data');
        $handler = $this->handler();
        $handler->read($this->id);
        $handler->setExists(false);
        self::assertFalse($this->isLocked());
        self::assertSame('data', $this->handler()->read($this->id));
    }

    public function testASecondSaveInOneRequest(): void
    {
        $handler = $this->handler();
        $handler->read($this->id);
        self::assertTrue($handler->write($this->id, 'early'));
        self::assertFalse($this->isLocked());
        self::assertTrue($handler->write($this->id, 'late'), 'nobody came in between');
        self::assertSame('late', $this->handler()->read($this->id));
    }

    public function testASecondSaveNeverOverwritesWhoCameInBetween(): void
    {
        $handler = $this->handler();
        $handler->read($this->id);
        $handler->write($this->id, 'early');
        $other = $this->handler();
        $other->read($this->id);
        $other->write($this->id, 'other');
        self::assertTrue($handler->write($this->id, 'early'), 'it has nothing new');
        self::assertSame([], $this->log->lines);
        self::assertFalse($handler->write($this->id, 'late'));
        self::assertStringContainsString('"reason":"superseded"', $this->log->lines[0]);
        self::assertSame('other', $this->handler()->read($this->id));
    }

    public function testASaveAfterTheEndNeverOverwritesWhoCameInBetween(): void
    {
        $handler = $this->handler();
        $handler->read($this->id);
        $handler->write($this->id, 'early');
        $handler->end();
        self::assertTrue($handler->write($this->id, 'late'), 'nobody came in between');
        $other = $this->handler();
        self::assertSame('late', $other->read($this->id));
        self::assertFalse($handler->write($this->id, 'while it is held'));
        $other->write($this->id, 'other');
        $other->end();
        $handler->end();
        self::assertFalse($handler->write($this->id, 'stale'));
        self::assertStringContainsString('"reason":"superseded"', $this->log->lines[1]);
        self::assertSame('other', $handler->read($this->id), 'the next request of this process');
        self::assertTrue($handler->write($this->id, 'next'));
        self::assertSame('next', $this->handler()->read($this->id));
    }

    public function testASaveAfterTheEndBringsNoDestroyedSessionBack(): void
    {
        $handler = $this->handler();
        $handler->read($this->id);
        $handler->write($this->id, 'logged in');
        $handler->end();
        $this->handler()->destroy($this->id);
        self::assertFalse($handler->write($this->id, 'logged in, and more'));
        $unread = bin2hex(random_bytes(20));
        $handler->destroy($unread);
        self::assertFalse($handler->write($unread, 'comes back'));
        self::assertFalse($this->client()->sessionExists($this->id, $this->prefix));
        self::assertFalse($this->client()->sessionExists($unread, $this->prefix));
    }

    public function testEverySaveBeginsTheLifeAnewChangedOrNot(): void
    {
        $this->save('data');
        $ttl = fn () => $this->client()->sessions($this->id)[0]['ttl_ms'];
        self::assertEqualsWithDelta(120_000, $ttl(), 5_000);
        foreach (['data', 'other'] as $data) {
            $long = $this->handler(['session.lifetime' => $data === 'data' ? 5 : 10]);
            $long->read($this->id);
            $long->write($this->id, $data);
            self::assertEqualsWithDelta($data === 'data' ? 300_000 : 600_000, $ttl(), 5_000);
        }
    }

    public function testARecordThatExpiredDuringTheRequestIsSavedAgain(): void
    {
        $client = $this->client();
        $handler = $this->handlerOf($client, new SessionOptions(60.0, $this->prefix));
        $client->commitSession($this->id, 0, 'data', 0.05, prefix: $this->prefix);
        self::assertSame('data', $handler->read($this->id));
        self::eventually('it has expired', fn () => !$client->sessionExists($this->id, $this->prefix));
        self::assertTrue($handler->write($this->id, 'data'));
        self::assertFalse($this->isLocked());
        self::assertSame('data', $this->handler()->read($this->id));
    }

    public function testWithoutTheLockAfterTheWaitItGoesOnAndWarns(): void
    {
        $this->save('data');
        $holder = $this->handler();
        $holder->read($this->id);
        $late = $this->handler($this->lockFailure('unlocked'));
        self::assertSame('data', $late->read($this->id));
        self::assertStringStartsWith(
            'warning: coatcheck: another request holds the session; this one goes on without its lock',
            $this->log->lines[0],
        );
        self::assertStringContainsString('"pid":' . getmypid(), $this->log->lines[0]);
        self::assertStringNotContainsString($this->id, $this->log->lines[0]);
        self::assertTrue($late->write($this->id, 'late'));
        self::assertTrue($this->isLocked(), 'the holder still has its lock');
    }

    public function testReadOnlyAfterTheWaitSavesNothing(): void
    {
        $this->save('data');
        $holder = $this->handler();
        $holder->read($this->id);
        $late = $this->handler($this->lockFailure('readonly'));
        self::assertSame('data', $late->read($this->id));
        self::assertStringContainsString('will not save it', $this->log->lines[0]);
        self::assertTrue($late->write($this->id, 'late'));
        self::assertTrue($holder->write($this->id, 'data'));
        self::assertSame('data', $this->handler()->read($this->id));
    }

    public function testFailAfterTheWaitNamesTheHolder(): void
    {
        $holder = $this->handler();
        $holder->read($this->id);
        $late = $this->handler($this->lockFailure('fail'));
        try {
            $late->read($this->id);
            self::fail('two requests have the session');
        } catch (BusyException $busy) {
            self::assertSame(getmypid(), $busy->holder()['pid']);
        }
        $late->end();
        self::assertTrue($this->isLocked());
    }

    public function testAnotherWordForTheLockFailureIsRefused(): void
    {
        $this->expectException(\InvalidArgumentException::class);
        $this->expectExceptionMessage('unlocked, readonly, fail');
        $this->handler($this->lockFailure('ignore'));
    }

    public function testWithoutLockingNobodyWaits(): void
    {
        $config = ['coatcheck.session' => ['prefix' => $this->prefix, 'locking' => false]];
        $first = $this->handler($config);
        $first->read($this->id);
        self::assertFalse($this->isLocked());
        self::assertTrue($first->write($this->id, 'data'));
        $this->handler($config)->destroy($this->id);
        self::assertFalse($first->write($this->id, 'comes back'), 'a session that was destroyed stays so');
    }

    public function testAFailedReadIsNeverAnEmptySession(): void
    {
        $daemon = Daemon::start();
        $handler = $this->handlerOf(Client::connect($daemon->socket, ['timeout' => 0.2, 'connect_timeout' => 0.2]));
        $handler->read($this->id);
        $handler->write($this->id, 'data');
        $daemon->stop();
        $this->expectException(RequestFailed::class);
        $handler->read($this->id);
    }

    public function testAFailedWriteIsAnException(): void
    {
        $daemon = Daemon::start();
        $client = Client::connect($daemon->socket, ['timeout' => 0.2, 'connect_timeout' => 0.2, 'transport' => 'stream']);
        $handler = $this->handlerOf($client);
        $handler->read($this->id);
        $daemon->stop();
        $this->expectException(RequestFailed::class);
        $handler->write($this->id, 'data');
    }

    public function testAGrantWhoseAnswerWasLostIsGivenBackAtTheEnd(): void
    {
        $daemon = Daemon::start();
        $options = ['timeout' => 0.2, 'transport' => 'stream', 'persistent' => false];
        $client = Client::connect($daemon->socket, $options);
        $handler = $this->handlerOf($client);
        $client->ping();
        $daemon->pause();
        try {
            $handler->read($this->id);
            self::fail('a daemon that stands still has answered');
        } catch (TimeoutException) {
        }
        $daemon->resume();
        $handler->end();
        $next = $this->handlerOf(Client::connect($daemon->socket, $options));
        self::assertSame('', $next->read($this->id));
        self::assertSame([], $this->log->lines);
    }

    public function testAForkedChildNeitherSavesNorReleases(): void
    {
        $handler = $this->handler();
        $handler->read($this->id);
        $child = Child::fork(function () use ($handler) {
            $saved = $handler->write($this->id, 'from the child');
            $handler->end();
            return $saved;
        });
        self::assertFalse($child->tells());
        $child->await();
        self::assertTrue($this->isLocked());
        self::assertTrue($handler->write($this->id, 'from the parent'));
        self::assertSame('from the parent', $this->handler()->read($this->id));
    }

    public function testCollectingGarbageIsTheDaemonsJob(): void
    {
        self::assertSame(0, $this->handler()->gc(1));
    }

    public function testAMegabyteOfRandomBytesComesBack(): void
    {
        $data = random_bytes(1 << 20);
        $this->save($data);
        self::assertTrue($data === $this->handler()->read($this->id));
    }

    private function save(string $data): void
    {
        $handler = $this->handler();
        $handler->read($this->id);
        $handler->write($this->id, $data);
        $handler->end();
    }

    private function handlerOf(Client $client, ?SessionOptions $options = null): CoatcheckSessionHandler
    {
        $options ??= new SessionOptions(60.0, $this->prefix, lockWaitSeconds: 0.2);
        return new CoatcheckSessionHandler($client, $options, new CurrentRequest(), $this->log);
    }

    /** @return array<string, mixed> */
    private function lockFailure(string $what): array
    {
        return ['coatcheck.session' => ['prefix' => $this->prefix, 'lock_wait' => 0.05, 'lock_failure' => $what]];
    }

    private function isLocked(): bool
    {
        return $this->client()->sessions($this->id)[0]['locked'] ?? $this->waiters() !== null;
    }

    /** @return int|null null when nobody holds the session's lock */
    private function waiters(): ?int
    {
        foreach ($this->client()->heldLocks() as $lock) {
            if ($lock['kind'] === 'session' && str_starts_with($lock['name'], substr($this->id, 0, 6))) {
                return $lock['waiters'];
            }
        }
        return null;
    }
}
