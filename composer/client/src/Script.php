<?php

declare(strict_types=1);

namespace Coatcheck\Client;

/**
 * The name under which others see who holds a lock.
 *
 * @internal
 */
final class Script
{
    private const MAX_LENGTH = 255;

    public static function name(?string $given = null): string
    {
        $script = $given ?? $_SERVER['SCRIPT_FILENAME'] ?? '';
        return is_string($script) ? substr($script, 0, self::MAX_LENGTH) : '';
    }
}
