<?php

declare(strict_types=1);

namespace Coatcheck\Client\Tests;

use Coatcheck\Client\Client;
use Coatcheck\Client\Tests\Contract\ClientContract;
use Coatcheck\Tests\Packages\Daemon;
use PHPUnit\Framework\Attributes\Group;

/**
 * The contract of a client over this transport.
 *
 * @group extension
 */
#[Group('extension')]
final class ExtensionTest extends ClientContract
{
    protected function client(): Client
    {
        return Client::connect(Daemon::sharedSocket(), ['transport' => 'extension']);
    }
}
