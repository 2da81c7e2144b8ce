<?php

/**
 * A site whose database and daemon are the test's own, and which asks nobody outside.
 */

declare(strict_types=1);

define('DB_NAME', (string) getenv('WORDPRESS_DATABASE'));
define('DB_HOST', 'localhost:' . getenv('WORDPRESS_DATABASE_SOCKET'));
define('DB_USER', 'root');
define('DB_PASSWORD', '');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');

foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $name) {
    define("{$name}_KEY", "the $name key of a site for tests");
    define("{$name}_SALT", "the $name salt of a site for tests");
}

define('WP_HTTP_BLOCK_EXTERNAL', true);
define('DISABLE_WP_CRON', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('COATCHECK_DSN', (string) getenv('COATCHECK_SOCKET'));

$host = $_SERVER['HTTP_HOST'] ?? (string) getenv('WORDPRESS_HOST');
$_SERVER['HTTP_HOST'] = $host;
if (is_file(__DIR__ . '/network')) {
    define('MULTISITE', true);
    define('SUBDOMAIN_INSTALL', false);
    define('DOMAIN_CURRENT_SITE', $host);
    define('PATH_CURRENT_SITE', '/');
    define('SITE_ID_CURRENT_SITE', 1);
    define('BLOG_ID_CURRENT_SITE', 1);
} else {
    define('WP_ALLOW_MULTISITE', true);
    define('WP_HOME', "http://$host");
    define('WP_SITEURL', "http://$host");
}

$table_prefix = 'wp_';
defined('ABSPATH') || define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
