<?php

/**
 * Makes a network with a second site of an installed single site, as the page Tools > Network Setup does.
 */

declare(strict_types=1);

define('WP_INSTALLING', true);
require __DIR__ . '/public/wp-load.php';
require_once ABSPATH . 'wp-admin/includes/upgrade.php';
require_once ABSPATH . 'wp-admin/includes/network.php';

foreach ($wpdb->tables('ms_global') as $table => $name) {
    $wpdb->$table = $name;
}
install_network();
$result = populate_network(1, $_SERVER['HTTP_HOST'], 'admin@example.org', 'Network', '/', false);
if (is_wp_error($result) && $result->get_error_code() !== 'no_wildcard_dns') {
    exit($result->get_error_message());
}
touch(__DIR__ . '/public/network');
