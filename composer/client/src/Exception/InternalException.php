<?php

declare(strict_types=1);

namespace Coatcheck\Client\Exception;

/**
 * A fault of the daemon, or an error that this version does not know; the daemon's log says more.
 */
final class InternalException extends \Coatcheck\Exception implements RequestFailed
{
    use Failure;
}
