<?php

/**
 * Plugin Name: coatcheck
 * Plugin URI: https://github.com/coatcheck/coatcheck
 * Description: The object cache kept by coatcheck: shared by all workers, atomic, and one flush for one site.
 * Version: 1.0.0
 * Requires at least: 6.1
 * Requires PHP: 8.1
 * License: Apache-2.0
 * Text Domain: coatcheck
 */

(static function () {
    if (!defined('ABSPATH')) {
        return;
    }
    if (PHP_VERSION_ID >= 80100 && require __DIR__ . '/autoload.php') {
        Coatcheck\WordPress\Plugin::start(__FILE__);
        return;
    }
    add_action('admin_notices', static function () {
        $text = PHP_VERSION_ID < 80100
            ? __('coatcheck needs PHP 8.1 or later.', 'coatcheck')
            : __('coatcheck needs coatcheck/client: its README says how it is installed.', 'coatcheck');
        printf('<div class="notice notice-error"><p>%s</p></div>', esc_html($text));
    });
})();
