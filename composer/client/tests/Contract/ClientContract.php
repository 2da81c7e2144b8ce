<?php

declare(strict_types=1);

namespace Coatcheck\Client\Tests\Contract;

use Coatcheck\Client\Client;
use Coatcheck\Tests\Packages\Daemon;
use PHPUnit\Framework\TestCase;

/**
 * What every transport must do, asked of a live daemon. A transport's own test class says how it is made.
 */
abstract class ClientContract extends TestCase
{
    use ValueCases;
    use LockCases;
    use SessionCases;
    use FailureCases;
    use ForkCases;

    protected Client $client;

    /** A client of the daemon that the suite shares. */
    abstract protected function client(): Client;

    protected function setUp(): void
    {
        $this->client = $this->client();
        $this->client->flush();
    }

    /** A name that no other test uses: locks and sessions outlive a flush. */
    protected static function fresh(string $what): string
    {
        return $what . '-' . bin2hex(random_bytes(6));
    }

    /** Another client of the same daemon, with a connection of its own whatever the transport. */
    protected static function other(): Client
    {
        return Client::connect(Daemon::sharedSocket(), ['transport' => 'stream']);
    }
}
