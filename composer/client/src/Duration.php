<?php

declare(strict_types=1);

namespace Coatcheck\Client;

use Coatcheck\Client\Exception\InvalidArgumentException;

/**
 * Seconds of PHP as the protocol's milliseconds.
 *
 * @internal
 */
final class Duration
{
    private const MAX_SECONDS = 1e12;

    /**
     * A life time or lease: above 0; part of a millisecond counts as a whole.
     *
     * @return int|null null for null, which is no expiry
     */
    public static function lifeMs(?float $seconds, string $what): ?int
    {
        if ($seconds === null) {
            return null;
        }
        if (!($seconds > 0 && $seconds <= self::MAX_SECONDS)) {
            throw new InvalidArgumentException(
                sprintf('%s must be greater than 0 and at most %.0f, not %s', $what, self::MAX_SECONDS, $seconds)
            );
        }
        return (int) ceil(round($seconds * 1000, 6));
    }

    /** A wait: 0 does not wait. */
    public static function waitMs(float $seconds, string $what): int
    {
        if (!($seconds >= 0 && $seconds <= self::MAX_SECONDS)) {
            throw new InvalidArgumentException(
                sprintf('%s must be from 0 to %.0f, not %s', $what, self::MAX_SECONDS, $seconds)
            );
        }
        return (int) ceil(round($seconds * 1000, 6));
    }
}
