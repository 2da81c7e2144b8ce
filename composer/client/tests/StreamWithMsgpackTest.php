<?php

declare(strict_types=1);

namespace Coatcheck\Client\Tests;

use Coatcheck\Client\Client;
use Coatcheck\Client\Codec\ExtMsgpackCodec;
use Coatcheck\Client\Tests\Contract\ClientContract;
use Coatcheck\Client\Transport\StreamOptions;
use Coatcheck\Client\Transport\StreamTransport;
use Coatcheck\Tests\Packages\Daemon;

/**
 * The contract of a client over this transport.
 */
final class StreamWithMsgpackTest extends ClientContract
{
    protected function client(): Client
    {
        return new Client(new StreamTransport(new StreamOptions(Daemon::sharedSocket(), codec: new ExtMsgpackCodec())));
    }
}
