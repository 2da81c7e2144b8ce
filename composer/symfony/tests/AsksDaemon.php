<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Tests;

use Coatcheck\Client\Client;
use Coatcheck\Tests\Packages\Daemon;

/**
 * Clients of the suite's daemon, over the transport that is this run's: tests/packages/run.sh runs the suite once with
 * each.
 */
trait AsksDaemon
{
    protected static function client(): Client
    {
        return self::clientAt(Daemon::sharedSocket());
    }

    /** A client of a test's own daemon; the extension's has one socket, so this one is always a stream. */
    protected static function streamClientAt(string $socket, float $timeoutSeconds = 5.0): Client
    {
        return Client::connect($socket, ['transport' => 'stream', 'timeout' => $timeoutSeconds]);
    }

    protected static function countingTransport(): CountingTransport
    {
        return new CountingTransport(self::client()->transport);
    }

    /** A name that no other test uses. */
    protected static function freshName(): string
    {
        return 'test' . bin2hex(random_bytes(6));
    }

    private static function clientAt(string $socket): Client
    {
        $transport = getenv('COATCHECK_TEST_MODE') === 'extension' ? 'extension' : 'stream';
        return Client::connect($socket, ['transport' => $transport]);
    }
}
