<?php

declare(strict_types=1);

namespace Coatcheck\Client\Exception;

/**
 * No answer came in time: the daemon hangs or is overloaded. The connection was closed, so that a late answer
 * is never taken for another.
 */
final class TimeoutException extends \Coatcheck\TimeoutException implements RequestFailed
{
    use Failure;
}
