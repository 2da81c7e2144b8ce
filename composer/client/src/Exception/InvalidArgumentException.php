<?php

declare(strict_types=1);

namespace Coatcheck\Client\Exception;

/**
 * The caller's argument cannot be sent; nothing was.
 */
final class InvalidArgumentException extends \InvalidArgumentException implements CoatcheckException
{
}
