<?php

/**
 * The functions of WordPress that the cache, its drop-in and its commands call, as far as they need them.
 */

declare(strict_types=1);

function wp_suspend_cache_addition(?bool $suspend = null): bool
{
    static $isSuspended = false;
    return $isSuspended = $suspend ?? $isSuspended;
}

function _doing_it_wrong(string $function, string $message, string $version): void
{
    $GLOBALS['doing_it_wrong'][] = "$function: $message";
}

function is_multisite(): bool
{
    return isset($GLOBALS['sites']);
}

function get_current_blog_id(): int
{
    return $GLOBALS['sites'][0] ?? 1;
}

/** @return list<int> */
function get_sites(array $query): array
{
    return $query === ['fields' => 'ids', 'number' => 0] ? $GLOBALS['sites'] : [];
}

function wp_is_file_mod_allowed(string $context): bool
{
    return $context === 'coatcheck_drop_in' && !isset($GLOBALS['no_file_changes']);
}
