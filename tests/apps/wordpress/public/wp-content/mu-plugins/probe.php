<?php

/**
 * What the test asks of a running site: ?probe=... answers with a text instead of a page.
 */

declare(strict_types=1);

add_action('init', static function (): void {
    if (!isset($_GET['probe'])) {
        return;
    }
    $name = (string) ($_GET['name'] ?? '');
    header('Content-Type: text/plain');
    echo match ($_GET['probe']) {
        'update' => update_option($name, $_GET['value']) ? 'updated' : 'unchanged',
        'delete' => delete_option($name) ? 'deleted' : 'missing',
        'option' => get_option($name, 'missing'),
        'cached' => implode(' ', cached_options($name)),
        'stale' => implode(' ', stale_options()),
        'set' => wp_cache_set($name, $_GET['value'], 'probe') ? 'set' : 'not set',
        'get' => var_export(wp_cache_get($name, 'probe'), true),
        'flush' => wp_cache_flush() ? 'flushed' : 'not flushed',
        'second-site' => (string) wp_insert_site(['domain' => $_SERVER['HTTP_HOST'], 'path' => '/two/', 'user_id' => 1]),
        'site' => (string) get_current_blog_id(),
        'info' => wp_using_ext_object_cache() ? get_class($GLOBALS['wp_object_cache']) : 'none',
    };
    exit;
});

/**
 * @return array<string, string> the options whose names begin so, as the cache has them
 */
function cached_options(string $prefix): array
{
    $isMeant = static fn (string $name) => str_starts_with($name, $prefix);
    return array_filter(wp_cache_get('alloptions', 'options', true) ?: [], $isMeant, ARRAY_FILTER_USE_KEY);
}

/**
 * @return list<string> the options that the cache has otherwise than the database
 */
function stale_options(): array
{
    global $wpdb;
    $cached = wp_cache_get('alloptions', 'options', true) ?: [];
    $stored = $wpdb->get_results("SELECT option_name, option_value FROM $wpdb->options WHERE autoload = 'yes'");
    $stored = array_column($stored, 'option_value', 'option_name');
    return array_keys(array_diff_assoc($cached, $stored) + array_diff_assoc($stored, $cached));
}
