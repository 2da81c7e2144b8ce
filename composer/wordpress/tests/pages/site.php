<?php

/**
 * Loads an object cache as WordPress does, the drop-in of its argument or WordPress's own, and tells what came of it.
 *
 * @param string $argv[1] wp-content
 * @param string $argv[2] what to tell: ours, signatures or values
 */

declare(strict_types=1);

define('ABSPATH', '/usr/share/wordpress/');
define('WP_CONTENT_DIR', $argv[1]);
define('WPINC', 'wp-includes');
define('DB_NAME', 'database');
require __DIR__ . '/../Support/functions.php';

if (is_file(WP_CONTENT_DIR . '/object-cache.php')) {
    require WP_CONTENT_DIR . '/object-cache.php';
}
$isOurs = function_exists('wp_cache_init');
if (!$isOurs) {
    require ABSPATH . 'wp-includes/cache.php';
}
wp_cache_init();

echo json_encode(match ($argv[2]) {
    'ours' => $isOurs,
    'signatures' => signatures(),
    'values' => values(),
});

/** @return array<string, list<string>> the parameters of every function of the cache */
function signatures(): array
{
    $signatures = [];
    foreach (get_defined_functions()['user'] as $function) {
        if (str_starts_with($function, 'wp_cache_')) {
            $signatures[$function] = array_map(
                static fn (ReflectionParameter $of) => ($of->isPassedByReference() ? '&' : '')
                    . $of->getName()
                    . ($of->isDefaultValueAvailable() ? ' = ' . var_export($of->getDefaultValue(), true) : ''),
                (new ReflectionFunction($function))->getParameters(),
            );
        }
    }
    return $signatures;
}

/** @return array<string, mixed> what each function answers */
function values(): array
{
    wp_cache_add_global_groups(['users']);
    wp_cache_add_non_persistent_groups('counts');
    wp_cache_switch_to_blog(1);
    return [
        'flush' => wp_cache_flush(),
        'set' => wp_cache_set('a', 1),
        'add' => wp_cache_add('a', 2),
        'replace' => wp_cache_replace('a', 3),
        'get' => [wp_cache_get('a', '', true, $found), $found],
        'incr' => wp_cache_incr('a', '2'),
        'decr' => wp_cache_decr('a'),
        'delete' => wp_cache_delete('a'),
        'set_multiple' => wp_cache_set_multiple(['a' => 1, 'b' => 2], 'g', '60'),
        'add_multiple' => wp_cache_add_multiple(['a' => 1, 'c' => 3], 'g'),
        'get_multiple' => wp_cache_get_multiple(['a', 'c', 'd'], 'g'),
        'delete_multiple' => wp_cache_delete_multiple(['a', 'd'], 'g'),
        'supports' => [wp_cache_supports('flush_group'), wp_cache_supports('nothing')],
        'flush_runtime' => wp_cache_flush_runtime(),
        'flush_group' => wp_cache_flush_group('g'),
        'after the flush' => wp_cache_get('b', 'g'),
        'close' => wp_cache_close(),
        'class' => $GLOBALS['wp_object_cache'] instanceof WP_Object_Cache,
    ];
}
