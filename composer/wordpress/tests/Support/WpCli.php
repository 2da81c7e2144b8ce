<?php

declare(strict_types=1);

namespace Coatcheck\WordPress\Tests\Support;

/**
 * What WP-CLI would have printed. Its class WP_CLI is an alias of this one.
 */
final class WpCli
{
    /** @var list<string> */
    public static array $printed = [];

    public static function line(string $text): void
    {
        self::$printed[] = $text;
    }

    public static function success(string $text): void
    {
        self::$printed[] = "Success: $text";
    }

    public static function error(string $text): void
    {
        self::$printed[] = "Error: $text";
    }
}
