<?php

declare(strict_types=1);

namespace Coatcheck\Client\Exception;

/**
 * There is no connection to the daemon, or it broke before the answer came.
 */
final class ConnectionException extends \Coatcheck\ConnectionException implements RequestFailed
{
    use Failure;
}
