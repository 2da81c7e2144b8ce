<?php

declare(strict_types=1);

namespace Coatcheck\Client\Exception;

/**
 * The daemon is starting or shutting down, or nobody in the cluster can decide now; nothing was carried out.
 */
final class UnavailableException extends \Coatcheck\UnavailableException implements RequestFailed
{
    use Failure;
}
