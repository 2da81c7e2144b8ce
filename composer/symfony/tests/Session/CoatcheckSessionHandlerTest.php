<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Tests\Session;

use Coatcheck\Client\Client;
use Coatcheck\Client\Exception\BusyException;
use Coatcheck\Client\Exception\ConnectionException;
use Coatcheck\Client\Exception\TooLargeException;
use Coatcheck\Client\Token;
use Coatcheck\Symfony\Session\CoatcheckSessionHandler;
use Coatcheck\Symfony\Tests\AsksDaemon;
use Coatcheck\Symfony\Tests\CountingTransport;
use Coatcheck\Symfony\Tests\MemoryLogger;
use Coatcheck\Tests\Packages\Child;
use Coatcheck\Tests\Packages\Daemon;
use PHPUnit\Framework\TestCase;
use Symfony\Component\HttpFoundation\Session\Storage\Handler\MigratingSessionHandler;

/**
 * The handler as PHP calls it, callback by callback.
 */
final class CoatcheckSessionHandlerTest extends TestCase
{
    use AsksDaemon;

    private string $id;
    private CountingTransport $transport;
    private MemoryLogger $logger;
    private ?Client $holder = null;

    protected function setUp(): void
    {
        $this->id = bin2hex(random_bytes(16));
        $this->transport = self::countingTransport();
        $this->logger = new MemoryLogger();
    }

    public function testALockedRequestTakesTwoRoundTrips(): void
    {
        $handler = $this->handler();

        self::assertSame('', $handler->read($this->id));
        self::assertTrue($handler->write($this->id, 'data'));
        self::assertTrue($handler->close());

        self::assertSame(['session.open', 'session.commit'], $this->transport->take());
        self::assertSame('data', $this->stored());
    }

    public function testStrictModeTakesTwoRoundTripsAsWell(): void
    {
        $this->store('data');
        $handler = $this->handler();

        self::assertTrue($handler->validateId($this->id));
        self::assertSame('data', $handler->read($this->id));
        self::assertTrue($handler->write($this->id, 'more'));
        $handler->close();

        self::assertSame(['session.open', 'session.commit'], $this->transport->take());
    }

    public function testAnIdThatStrictModeRefusesIsNotLockedAndTheNewOneIs(): void
    {
        $unknown = bin2hex(random_bytes(16));
        $handler = $this->handler();

        self::assertFalse($handler->validateId($unknown));
        self::assertSame('', $handler->read($this->id));

        self::assertSame([false, true], [$this->isLocked($unknown), $this->isLocked($this->id)]);
        self::assertTrue($handler->write($this->id, 'data'));
        $handler->close();
        self::assertSame('data', $this->stored());
        self::assertFalse($this->isLocked($this->id));
    }

    public function testAnIdOfRegenerateIsLockedOnce(): void
    {
        $handler = $this->handler();
        self::assertFalse($handler->validateId($this->id));
        self::assertSame('', $handler->read($this->id));

        self::assertSame(['session.open'], $this->transport->take());
        self::assertTrue($this->isLocked($this->id));
        $handler->close();
    }

    public function testWhatNoSessionCanBeCalledIsUnknownWithoutAskingTheDaemon(): void
    {
        $handler = $this->handler();
        foreach (['', '../etc/passwd', "a\0b", "a\n", str_repeat('a', 257), 'ä'] as $id) {
            self::assertFalse($handler->validateId($id));
        }
        self::assertSame([], $this->transport->take());
        self::assertSame('', $handler->read($this->id), 'the new id is read');
        self::assertTrue($this->isLocked($this->id));
        $handler->close();
    }

    public function testASecondRequestWaitsForTheFirstAndSeesItsWrite(): void
    {
        $handler = $this->handler();
        $handler->read($this->id);
        $child = Child::fork(function (callable $tell): string {
            $tell('waiting');
            $handler = new CoatcheckSessionHandler(self::client());
            $data = $handler->read($this->id);
            $handler->close();
            return $data;
        });
        self::assertSame('waiting', $child->tells());
        Daemon::eventually('it waits', fn () => $this->lock($this->id)['waiters'] === 1);

        $handler->write($this->id, 'of the first');

        self::assertSame('of the first', $child->tells());
        $child->await();
    }

    public function testCloseWithoutAWriteGivesTheLockBack(): void
    {
        $handler = $this->handler();
        $handler->read($this->id);
        self::assertTrue($this->isLocked($this->id));

        self::assertTrue($handler->close());

        self::assertFalse($this->isLocked($this->id));
        self::assertSame(['session.open', 'session.release'], $this->transport->take());
        self::assertTrue($handler->close(), 'again does nothing');
        self::assertSame([], $this->transport->take());
    }

    public function testReadingTwiceWithoutACloseDoesNotWaitForItself(): void
    {
        $this->store('data');
        $handler = $this->handler(['lock_wait' => 10]);
        $handler->read($this->id);
        $began = microtime(true);

        self::assertTrue($handler->open('', 'PHPSESSID'));
        self::assertSame('data', $handler->read($this->id));

        self::assertLessThan(5.0, microtime(true) - $began);
        $handler->close();
        self::assertFalse($this->isLocked($this->id));
    }

    public function testAnEmptySessionIsDestroyedAndNoLockIsLeft(): void
    {
        $this->store('data');
        $handler = $this->handler();
        $handler->read($this->id);
        self::assertTrue($handler->write($this->id, ''));
        $handler->close();
        self::assertFalse(self::client()->sessionExists($this->id));
        self::assertFalse($this->isLocked($this->id));

        $this->transport->take();
        $handler->read($this->id);
        $handler->write($this->id, '');
        $handler->close();
        self::assertSame(['session.open', 'session.release'], $this->transport->take(), 'one that never was');
        self::assertFalse($this->isLocked($this->id));
    }

    public function testASecondWriteCannotOverwriteWhoCameBetween(): void
    {
        $handler = $this->handler();
        $handler->read($this->id);
        self::assertTrue($handler->write($this->id, 'first'));
        self::assertTrue($handler->write($this->id, 'first again'), 'nobody came');
        $this->store('of another');

        self::assertFalse($handler->write($this->id, 'first once more'));
        $handler->close();

        self::assertSame('of another', $this->stored());
    }

    public function testAStaleEmptySessionDestroysNothing(): void
    {
        $this->store('old');
        $handler = $this->handler();
        $handler->read($this->id);
        self::client()->forceReleaseSession($this->id);
        $this->store('of another');

        self::assertFalse($handler->write($this->id, ''));
        $handler->close();

        self::assertSame('of another', $this->stored());
        self::assertStringContainsString('is not written', $this->logger->lines[0]);
    }

    public function testDestroyDeletesAndReleasesInOneStep(): void
    {
        $this->store('data');
        $handler = $this->handler();
        $handler->read($this->id);
        $this->transport->take();

        self::assertTrue($handler->destroy($this->id));
        $handler->close();

        self::assertSame(['session.destroy'], $this->transport->take());
        self::assertFalse(self::client()->sessionExists($this->id));
        self::assertFalse($this->isLocked($this->id));
        self::assertSame('', $handler->read($this->id), 'a later start works');
        self::assertTrue($handler->write($this->id, 'new'));
        self::assertSame('new', $this->stored());
    }

    public function testAWriteAfterSomebodyElsesDestroyIsRefusedAndLogged(): void
    {
        $this->store('logged in');
        $handler = $this->handler();
        $handler->read($this->id);
        self::client()->destroySession($this->id);

        self::assertFalse($handler->write($this->id, 'logged in again'));
        $handler->close();

        self::assertFalse(self::client()->sessionExists($this->id), 'who was logged out stays so');
        self::assertStringContainsString('destroyed', $this->logger->lines[0]);
        self::assertStringContainsString(substr($this->id, 0, 6) . '…', $this->logger->lines[0]);
        self::assertStringNotContainsString($this->id, implode($this->logger->lines));
    }

    public function testAWriteAfterTheLockWentToAnotherIsRefusedAndOverwritesNothing(): void
    {
        $this->store('old');
        $handler = $this->handler();
        $handler->read($this->id);
        self::client()->forceReleaseSession($this->id);
        $this->store('of another');

        self::assertFalse($handler->write($this->id, 'stale'));
        $handler->close();

        self::assertSame('of another', $this->stored());
        self::assertStringContainsString('is not written', $this->logger->lines[0]);
    }

    public function testARefusedWriteIsAWarningWhereThereIsNoLogger(): void
    {
        $this->store('old');
        $handler = new CoatcheckSessionHandler(self::client());
        $handler->read($this->id);
        self::client()->destroySession($this->id);
        $warnings = [];
        set_error_handler(static function (int $level, string $message) use (&$warnings): bool {
            $warnings[] = [$level, $message];
            return true;
        });
        try {
            self::assertFalse($handler->write($this->id, 'stale'));
        } finally {
            restore_error_handler();
        }

        self::assertSame(E_USER_WARNING, $warnings[0][0]);
        self::assertStringContainsString('is not written', $warnings[0][1]);
    }

    public function testATouchBeginsTheLifeAnewAndWritesARecordThatHasVanished(): void
    {
        $this->store('data', 5);
        $handler = $this->handler(['ttl' => 500]);
        $handler->read($this->id);
        $this->transport->take();
        self::assertTrue($handler->updateTimestamp($this->id, 'data'));
        $handler->close();
        self::assertSame(['session.commit'], $this->transport->take());
        self::assertGreaterThan(400_000, $this->ttlMs());
        self::assertFalse($this->isLocked($this->id));

        $vanishing = bin2hex(random_bytes(16));
        self::client()->commitSession($vanishing, self::client()->openSession($vanishing)->fence, 'short', 0.3);
        $handler->read($vanishing);
        Daemon::eventually('the record is gone', fn () => !self::client()->sessionExists($vanishing));
        self::assertTrue($handler->updateTimestamp($vanishing, 'short'));
        self::assertSame('short', self::client()->openSession($vanishing)->data);
        self::assertFalse($this->isLocked($vanishing));
    }

    public function testTheTtlIsThatOfPhpUnlessGiven(): void
    {
        $lives = ['500' => 500, 'php' => (int) ini_get('session.gc_maxlifetime'), 'closure' => 70];
        $options = ['500' => ['ttl' => '500'], 'php' => [], 'closure' => ['ttl' => static fn () => 70]];
        foreach ($lives as $name => $seconds) {
            $handler = $this->handler($options[$name]);
            $handler->read($this->id);
            $handler->write($this->id, 'data');
            self::assertEqualsWithDelta($seconds * 1000, $this->ttlMs(), 5000, (string) $name);
        }
    }

    public function testPrefixesAreSessionsOfTheirOwn(): void
    {
        $this->store('without');
        $handler = $this->handler(['prefix' => 'shop']);
        self::assertSame('', $handler->read($this->id));
        $handler->write($this->id, 'of the shop');

        self::assertSame('without', $this->stored());
        self::assertSame('of the shop', self::client()->openSession($this->id, prefix: 'shop')->data);
    }

    public function testGarbageIsTheDaemonsJob(): void
    {
        self::assertSame(0, $this->handler()->gc(1));
        self::assertSame([], $this->transport->take());
    }

    public function testWithoutLockingNobodyWaits(): void
    {
        $this->store('data');
        $this->hold();
        $handler = $this->handler(['locking' => 'off']);

        self::assertSame('data', $handler->read($this->id));
        self::assertTrue($handler->write($this->id, 'more'));
        $handler->close();

        self::assertSame('more', $this->stored());
        self::assertSame(['session.open', 'session.commit'], $this->transport->take());
        self::assertSame([], $this->logger->lines);
    }

    public function testAContendedLockMayBeAFailure(): void
    {
        $this->hold();
        $handler = $this->handler(['lock_wait' => 0.1, 'lock_failure' => 'fail']);
        $began = microtime(true);
        try {
            $handler->read($this->id);
            self::fail('it was read');
        } catch (BusyException $busy) {
            self::assertSame(getmypid(), $busy->holder()['pid']);
        }
        self::assertGreaterThanOrEqual(0.09, microtime(true) - $began);
    }

    public function testAContendedLockMayLetTheRequestGoOnUnlocked(): void
    {
        $this->store('data');
        $this->hold();
        $handler = $this->handler(['lock_wait' => 0]);

        self::assertSame('data', $handler->read($this->id));
        self::assertStringContainsString('pid ' . getmypid(), $this->logger->lines[0]);
        self::assertStringContainsString('the last to write wins', $this->logger->lines[0]);
        self::assertTrue($handler->write($this->id, 'more'));
        self::assertTrue($handler->close());
        self::assertTrue($this->isLocked($this->id), 'the holder still holds it');
    }

    public function testAContendedLockMayLetTheRequestGoOnReadonly(): void
    {
        $this->store('data');
        $this->hold();
        $handler = $this->handler(['lock_wait' => 0, 'lock_failure' => 'readonly']);

        self::assertSame('data', $handler->read($this->id));
        self::assertTrue($handler->updateTimestamp($this->id, 'data'));
        self::assertSame('data', $handler->read($this->id));
        self::assertFalse($handler->write($this->id, 'more'));
        $handler->read($this->id);
        self::assertFalse($handler->write($this->id, ''), 'an empty one destroys nothing');

        self::assertSame('data', $this->stored());
        self::assertStringContainsString('readonly', end($this->logger->lines));
    }

    public function testAReadThatFailsIsAnExceptionAndNeverAnEmptySession(): void
    {
        $daemon = Daemon::start();
        $handler = new CoatcheckSessionHandler(self::streamClientAt($daemon->socket));
        $daemon->kill();

        $this->expectException(ConnectionException::class);
        $this->expectExceptionMessage($daemon->socket);
        $handler->read($this->id);
    }

    public function testADaemonThatWasRestartedBetweenReadAndWriteIsNoticed(): void
    {
        $daemon = Daemon::start();
        $handler = new CoatcheckSessionHandler(self::streamClientAt($daemon->socket), [], $this->logger);
        $handler->read($this->id);
        $daemon->kill();
        try {
            $handler->write($this->id, 'data');
            self::fail('it was written');
        } catch (ConnectionException $failure) {
            self::assertStringContainsString($daemon->socket, $failure->getMessage());
        }
        self::assertTrue($handler->close(), 'a release that fails hides nothing');
        self::assertStringContainsString('is not released', $this->logger->lines[0]);
    }

    public function testASessionThatIsTooLargeSaysSo(): void
    {
        $daemon = Daemon::start(['COATCHECK_LIMITS_MAX_FRAME' => '65536']);
        $handler = new CoatcheckSessionHandler(self::streamClientAt($daemon->socket), [], $this->logger);
        $handler->read($this->id);

        $this->expectException(TooLargeException::class);
        $handler->write($this->id, str_repeat('x', 100_000));
    }

    public function testAForkedProcessNeitherWritesNorReleasesItsParentsSession(): void
    {
        $this->store('data');
        $handler = $this->handler();
        $handler->read($this->id);
        $child = Child::fork(function () use ($handler): array {
            $touched = $handler->updateTimestamp($this->id, 'data');
            $written = $handler->write($this->id, '') || $handler->write($this->id, 'of the child');
            return [$touched, $written, $handler->close(), $this->logger->lines];
        });
        [$touched, $written, $closed, $lines] = $child->tells();
        $child->await();

        self::assertSame([true, false, true], [$touched, $written, $closed]);
        self::assertStringContainsString('forked', $lines[0]);
        self::assertTrue($this->isLocked($this->id));
        self::assertTrue($handler->write($this->id, 'of the parent'));
        self::assertSame('of the parent', $this->stored());
    }

    public function testTheLockIsFreeWhenItsProcessDies(): void
    {
        $child = Child::fork(function (callable $tell): void {
            $handler = new CoatcheckSessionHandler(self::client());
            $handler->read($this->id);
            $tell('held');
            sleep(60);
        });
        self::assertSame('held', $child->tells());
        $child->kill();
        $began = microtime(true);

        $handler = $this->handler();
        $handler->read($this->id);

        self::assertLessThan(2.0, microtime(true) - $began);
        self::assertTrue($handler->close());
    }

    public function testAWriteOfAnIdThatNobodyReadIsStored(): void
    {
        $old = new \Symfony\Component\HttpFoundation\Session\Storage\Handler\NullSessionHandler();
        $handler = new MigratingSessionHandler($old, $this->handler());
        $handler->open('', 'PHPSESSID');
        $handler->read($this->id);

        self::assertTrue($handler->write($this->id, 'migrated'));
        $handler->close();

        self::assertSame('migrated', $this->stored());
    }

    public function testBinaryDataIsKept(): void
    {
        $data = random_bytes(1 << 20);
        $handler = $this->handler();
        $handler->read($this->id);
        self::assertTrue($handler->write($this->id, $data));

        self::assertSame($data, $handler->read($this->id));
        $handler->close();
    }

    public function testWrongOptionsAreRefused(): void
    {
        $wrong = [
            ['lock_wiat' => 1], ['lock_failure' => 'ignore'], ['lock_wait' => -1], ['lock_lease' => 0],
            ['ttl' => 0], ['ttl' => 'long'], ['locking' => 'perhaps'], ['lock_wait' => 'long'],
        ];
        foreach ($wrong as $options) {
            try {
                $this->handler($options);
                self::fail(json_encode($options) . ' was taken');
            } catch (\InvalidArgumentException $refused) {
                self::assertStringContainsString((string) array_key_first($options), $refused->getMessage());
            }
        }
    }

    /** @param array<string, mixed> $options */
    private function handler(array $options = []): CoatcheckSessionHandler
    {
        $handler = new CoatcheckSessionHandler(new Client($this->transport), $options, $this->logger);
        $handler->open('', 'PHPSESSID');
        return $handler;
    }

    private function store(string $data, float $ttlSeconds = 1000.0): void
    {
        $client = self::client();
        $token = Token::random();
        $fence = $client->openSession($this->id, $token)->fence;
        $client->commitSession($this->id, $fence, $data, $ttlSeconds, $token);
    }

    private function hold(): void
    {
        $this->holder = self::client();
        $this->holder->openSession($this->id, Token::random());
    }

    private function stored(): string
    {
        return self::client()->openSession($this->id)->data;
    }

    private function isLocked(string $id): bool
    {
        return $this->lock($id) !== null;
    }

    /** @return array<string, mixed>|null */
    private function lock(string $id): ?array
    {
        foreach (self::client()->heldLocks() as $lock) {
            if ($lock['kind'] === 'session' && str_starts_with($id, rtrim($lock['name'], '…'))) {
                return $lock;
            }
        }
        return null;
    }

    private function ttlMs(): int
    {
        return self::client()->sessions($this->id)[0]['ttl_ms'];
    }
}
