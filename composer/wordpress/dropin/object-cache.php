<?php

/**
 * Plugin Name: coatcheck object cache (drop-in)
 * Plugin URI: https://github.com/coatcheck/coatcheck
 * Description: Hands the object cache to the plugin coatcheck. Without the plugin's files WordPress uses its own cache.
 * Version: 1.0.0
 *
 * This file is copied to wp-content/object-cache.php. It stays small and readable by any PHP, so that a site whose plugin
 * was moved or whose PHP is too old still works. What changes meanwhile the daemon does not learn, and nobody notes:
 * flush every site when the plugin is back.
 */

(static function () {
    if (!defined('ABSPATH') || function_exists('wp_cache_init')) {
        return;
    }
    $plugins = defined('WP_PLUGIN_DIR') ? WP_PLUGIN_DIR : WP_CONTENT_DIR . '/plugins';
    $directory = defined('COATCHECK_WORDPRESS_DIR') ? COATCHECK_WORDPRESS_DIR : $plugins . '/coatcheck';
    if (PHP_VERSION_ID < 80100) {
        error_log('coatcheck: the object cache needs PHP 8.1 or later; WordPress uses its own');
    } elseif (!is_file($directory . '/autoload.php') || !require $directory . '/autoload.php') {
        error_log("coatcheck: the plugin or coatcheck/client is not in $directory; WordPress uses its own object cache. "
            . 'Flush every site when it is back: wp coatcheck flush --network');
    } else {
        require_once $directory . '/functions.php';
    }
})();
