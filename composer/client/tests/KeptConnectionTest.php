<?php

declare(strict_types=1);

namespace Coatcheck\Client\Tests;

use Coatcheck\Client\Client;
use Coatcheck\Client\Tests\Support\BadPeer;
use Coatcheck\Tests\Packages\Daemon;
use Coatcheck\Tests\Packages\WebServer;
use PHPUnit\Framework\TestCase;

/**
 * A persistent connection, kept by a PHP process over its requests.
 */
final class KeptConnectionTest extends TestCase
{
    private Daemon $daemon;
    private WebServer $server;
    private Client $client;

    protected function setUp(): void
    {
        $this->daemon = Daemon::start();
        $this->server = self::server($this->daemon->socket);
        $this->client = Client::connect($this->daemon->socket, ['transport' => 'stream']);
    }

    public function testOneConnectionServesManyRequests(): void
    {
        $this->client->ping();
        foreach (range(1, 5) as $ignored) {
            self::assertSame('2', $this->server->get('request.php', ['do' => 'connections']));
        }
        // one that is not kept comes on top of it, and goes with its request
        self::assertSame('3', $this->server->get('request.php', ['do' => 'connections', 'persistent' => '0']));
        Daemon::eventually(
            'the daemon has seen it go',
            fn () => $this->server->get('request.php', ['do' => 'connections']) === '2',
        );
    }

    public function testAForgottenBoundLockEndsWithTheRequest(): void
    {
        self::assertSame('null', $this->server->get('request.php', ['do' => 'forget', 'lock' => 'forgotten']));
        Daemon::eventually('the lock is free', fn () => $this->client->lockInfo('forgotten') === null, 5.0);
    }

    public function testAForgottenBoundLockEndsWithARequestThatDiesOfAFatalError(): void
    {
        self::assertStringContainsString(
            'Allowed memory size',
            $this->server->get('request.php', ['do' => 'forget and end badly', 'lock' => 'forgotten']),
        );
        Daemon::eventually('the lock is free', fn () => $this->client->lockInfo('forgotten') === null, 5.0);
    }

    public function testWhatNoShutdownFunctionCouldReleaseEndsWithTheNextRequest(): void
    {
        self::assertStringEndsWith('true', $this->server->get('request.php', ['do' => 'hold in a late shutdown function', 'lock' => 'late']));
        $this->server->get('request.php', ['do' => 'connections']);
        self::assertNull($this->client->lockInfo('late'));
    }

    public function testTwoClientsOfARequestShareIt(): void
    {
        self::assertSame('true', $this->server->get('request.php', ['do' => 'two clients', 'lock' => 'shared']));
    }

    public function testAnAnswerLeftBehindIsNeverTakenForAnother(): void
    {
        $peer = new BadPeer(
            getenv('COATCHECK_TEST_DIR') . '/slow.sock',
            static function ($connection, int $count): void {
                $answer = BadPeer::answer(BadPeer::readId($connection), $count === 0 ? str_repeat('theirs', 20) : 'mine');
                foreach ($count === 0 ? str_split($answer) : [$answer] as $part) {
                    usleep($count === 0 ? 20_000 : 0); // 2.5 s in all
                    @fwrite($connection, $part);
                }
                fread($connection, 1);
            },
        );
        $server = self::server($peer->socket);
        self::assertSame('ended in the middle', $server->get('request.php', ['do' => 'end in the middle']));
        self::assertSame('"mine"', $server->get('request.php', ['do' => 'get', 'key' => 'mine']));
    }

    public function testALargeValueOnAKeptConnection(): void
    {
        self::assertSame('"0 true"', $this->server->get('request.php', ['do' => 'large']));
        self::assertSame('"500000 true"', $this->server->get('request.php', ['do' => 'large']));
    }

    public function testARestartOfTheDaemonBetweenRequestsIsNotNoticed(): void
    {
        $this->client->set('key', 'v');
        self::assertSame('"v"', $this->server->get('request.php', ['do' => 'get', 'key' => 'key']));
        $this->daemon->stop();
        $this->daemon->startAgain();
        self::assertSame('null', $this->server->get('request.php', ['do' => 'get', 'key' => 'key']));
        self::assertSame('1', $this->server->get('request.php', ['do' => 'connections']));
    }

    private static function server(string $socket): WebServer
    {
        return new WebServer(__DIR__ . '/www', [
            'COATCHECK_TEST_SOCKET' => $socket,
            'COATCHECK_TEST_BOOTSTRAP' => __DIR__ . '/bootstrap.php',
        ]);
    }
}
