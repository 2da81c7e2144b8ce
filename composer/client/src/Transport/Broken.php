<?php

declare(strict_types=1);

namespace Coatcheck\Client\Transport;

/**
 * What broke an exchange in the middle. The transport decides whether another try is right.
 *
 * @internal never leaves the transport
 */
final class Broken extends \RuntimeException
{
    public const CLOSED = 1;
    public const TIMED_OUT = 2;
    public const NONSENSE = 3;

    private function __construct(public readonly int $how, string $why)
    {
        parent::__construct($why);
    }

    public static function closed(): self
    {
        return new self(self::CLOSED, 'the daemon closed the connection before it answered (was it stopped or killed?)');
    }

    public static function timedOut(): self
    {
        return new self(self::TIMED_OUT, 'no answer in time; the daemon hangs or is overloaded');
    }

    public static function nonsense(string $why): self
    {
        return new self(self::NONSENSE, "$why; is this the socket of a coatcheck daemon?");
    }
}
