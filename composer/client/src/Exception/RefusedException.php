<?php

declare(strict_types=1);

namespace Coatcheck\Client\Exception;

/**
 * The request is sound, but the state forbids it; nothing was changed. reason() says which reason of
 * docs/protocol.md it is.
 */
final class RefusedException extends \Coatcheck\RefusedException implements RequestFailed
{
    use Failure;
}
