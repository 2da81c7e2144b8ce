<?php

declare(strict_types=1);

namespace Coatcheck\Client\Exception;

/**
 * A key or TTL that PSR-16 does not allow.
 */
final class InvalidCacheArgument extends \InvalidArgumentException implements
    CoatcheckException,
    \Psr\SimpleCache\InvalidArgumentException
{
}
