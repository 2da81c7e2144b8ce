<?php

declare(strict_types=1);

namespace Coatcheck\Client\Exception;

/**
 * A method or parameter is wrong, or what came back is no answer of a coatcheck daemon.
 */
final class ProtocolException extends \Coatcheck\ProtocolException implements RequestFailed
{
    use Failure;
}
