<?php

declare(strict_types=1);

namespace Coatcheck\Client\Tests;

use Coatcheck\Client\Client;
use Coatcheck\Client\Exception\ConnectionException;
use Coatcheck\Client\Exception\TimeoutException;
use Coatcheck\Tests\Packages\Child;
use Coatcheck\Tests\Packages\Daemon;
use PHPUnit\Framework\TestCase;

/**
 * The stream transport with a real daemon that is missing, killed, restarted or hangs.
 */
final class OutageTest extends TestCase
{
    public function testAMissingDaemonIsSaidAtOnce(): void
    {
        $began = microtime(true);
        $client = self::client(getenv('COATCHECK_TEST_DIR') . '/missing.sock');
        try {
            $client->get('key');
            self::fail('nobody is there');
        } catch (ConnectionException $failure) {
            self::assertStringContainsString('there is no such socket', $failure->getMessage());
            self::assertFalse($failure->outcomeIsUnknown());
            self::assertInstanceOf(\Coatcheck\ConnectionException::class, $failure);
        }
        self::assertLessThan(0.5, microtime(true) - $began);
    }

    public function testASocketWithoutADaemonIsSaidAtOnce(): void
    {
        $daemon = Daemon::start();
        $daemon->kill();
        $this->expectException(ConnectionException::class);
        $this->expectExceptionMessage('no daemon listens on it');
        self::client($daemon->socket)->get('key');
    }

    public function testARestartBetweenTwoRequestsIsNotNoticed(): void
    {
        $daemon = Daemon::start();
        $client = self::client($daemon->socket);
        $client->set('key', 'v');
        $daemon->stop();
        $daemon->startAgain();
        self::assertTrue($client->set('key', 'w'), 'a request that does harm twice is sent: nothing of it was before');
        $daemon->kill();
        $daemon->startAgain();
        self::assertNull($client->get('key'));
    }

    public function testADaemonThatRestartsIsWaitedFor(): void
    {
        $daemon = Daemon::start();
        $client = self::client($daemon->socket, connectTimeout: 5.0);
        $client->ping();
        $daemon->kill();
        $child = Child::fork(static fn () => $client->set('key', 'bridged'));
        usleep(100_000); // so that it finds nobody first
        $daemon->startAgain();
        self::assertTrue($child->tells());
        $child->await();
        self::assertSame('bridged', $client->get('key'));
    }

    public function testADaemonThatHangsIsATimeout(): void
    {
        $daemon = Daemon::start();
        $client = self::client($daemon->socket, timeout: 1.0);
        $client->ping();
        $daemon->pause();
        try {
            $client->incrBy('n');
            self::fail('it hangs');
        } catch (TimeoutException $failure) {
            self::assertTrue($failure->outcomeIsUnknown());
        }
        $daemon->resume();
        Daemon::eventually('the daemon has counted', fn () => $client->get('n') === '1');
    }

    public function testAnAcquireWhoseAnswerWasLostMayBeRepeatedOrReleased(): void
    {
        $daemon = Daemon::start();
        $lock = self::client($daemon->socket, timeout: 1.0)->detachedLock('nightly', 60);
        $daemon->pause();
        try {
            $lock->acquire();
            self::fail('it hangs');
        } catch (TimeoutException) {
            $daemon->resume(); // and perhaps grants it now, perhaps not
        }
        $token = $lock->token();
        self::assertTrue($lock->acquire(5));
        self::assertSame($token, $lock->token());
        $other = self::client($daemon->socket);
        self::assertFalse($other->detachedLock('nightly', 60)->acquire());
        self::assertTrue($lock->release());
        self::assertNull($other->lockInfo('nightly'));
    }

    public function testADaemonKilledInTheMiddleOfAWaitIsAConnectionFailure(): void
    {
        $daemon = Daemon::start();
        $holder = self::client($daemon->socket)->lock('held');
        $holder->acquire();
        $child = Child::fork(static fn () => self::client($daemon->socket, connectTimeout: 0.1)->lock('held')->acquire(20));
        $watcher = self::client($daemon->socket);
        Daemon::eventually('it waits', fn () => ($watcher->lockInfo('held')['waiters'] ?? 0) === 1);
        $daemon->kill();
        self::assertStringStartsWith(ConnectionException::class, $child->tells());
        $child->await();
    }

    private static function client(string $socket, float $timeout = 5.0, float $connectTimeout = 1.0): Client
    {
        return Client::connect(
            $socket,
            ['transport' => 'stream', 'timeout' => $timeout, 'connect_timeout' => $connectTimeout],
        );
    }
}
