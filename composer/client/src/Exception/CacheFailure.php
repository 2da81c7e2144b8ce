<?php

declare(strict_types=1);

namespace Coatcheck\Client\Exception;

use Psr\SimpleCache\CacheException;

/**
 * A PSR-16 cache could not ask the daemon; getPrevious() is the RequestFailed.
 */
final class CacheFailure extends \RuntimeException implements CoatcheckException, CacheException
{
    public static function of(RequestFailed $failure): self
    {
        return new self($failure->getMessage(), 0, $failure);
    }
}
