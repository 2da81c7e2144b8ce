<?php

/**
 * The two functions of WordPress that the cache itself calls.
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
