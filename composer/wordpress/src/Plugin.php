<?php

declare(strict_types=1);

namespace Coatcheck\WordPress;

use Coatcheck\WordPress\Admin\AdminBar;
use Coatcheck\WordPress\Admin\SettingsPage;
use Coatcheck\WordPress\Cli\CoatcheckCommand;

/**
 * Hooks the page, the admin bar and the commands into WordPress.
 */
final class Plugin
{
    public static function start(string $file): void
    {
        $installation = Installation::ofThisSite();
        $page = new SettingsPage($installation);
        add_action('admin_menu', $page->addToSite(...));
        add_action('network_admin_menu', $page->addToNetwork(...));
        add_action('admin_bar_menu', (new AdminBar())->add(...), 90);
        add_action('wp_delete_site', static fn (\WP_Site $site) => $installation->flushSpaceOf((int) $site->blog_id));
        add_filter('plugin_action_links_' . plugin_basename($file), $page->addLink(...));
        register_deactivation_hook($file, static function (bool $isNetworkWide) use ($installation): void {
            // One site of a network that does without the plugin's page takes the cache from no other.
            if ((!is_multisite() || $isNetworkWide) && $installation->dropIn->isOurs()) {
                try {
                    $installation->disable();
                } catch (\RuntimeException $failure) { // it goes on working, and without the plugin's files does nothing
                    error_log("coatcheck: {$failure->getMessage()}");
                }
            }
        });
        if (defined('WP_CLI') && constant('WP_CLI')) {
            \WP_CLI::add_command('coatcheck', new CoatcheckCommand($installation));
        }
    }
}
