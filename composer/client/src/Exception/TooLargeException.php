<?php

declare(strict_types=1);

namespace Coatcheck\Client\Exception;

/**
 * The request or its answer is larger than the daemon allows.
 */
final class TooLargeException extends \Coatcheck\TooLargeException implements RequestFailed
{
    use Failure;

    /** Of what was too large, in bytes. */
    public function size(): int
    {
        return (int) ($this->details['size'] ?? 0);
    }

    /** What the daemon allows, in bytes. */
    public function limit(): int
    {
        return (int) ($this->details['limit'] ?? 0);
    }
}
