<?php

declare(strict_types=1);

namespace Coatcheck\Client;

/**
 * The secret of one acquisition: 128 random bits as 32 hexadecimal digits. Whoever has it may renew and release.
 */
final class Token
{
    public static function random(): string
    {
        return bin2hex(random_bytes(16));
    }
}
