<?php

declare(strict_types=1);

namespace Coatcheck\Client\Exception;

/**
 * The owner of the key did not answer: the outcome is unknown. The same token may be tried again and released.
 */
final class UnreachableOwnerException extends \Coatcheck\UnreachableOwnerException implements RequestFailed
{
    use Failure;
}
