<?php

declare(strict_types=1);

namespace Coatcheck\WordPress\Admin;

use Coatcheck\WordPress\Installation;

/**
 * What the cache did for this page, in the admin bar of those who may see the site's settings.
 */
final class AdminBar
{
    public function add(\WP_Admin_Bar $bar): void
    {
        $cache = Installation::cache();
        if ($cache === null || !current_user_can('manage_options')) {
            return;
        }
        $info = $cache->info();
        $asked = $info['hits'] + $info['misses'];
        $title = $info['trouble'] !== null
            ? __('Cache: no daemon', 'coatcheck')
            /* translators: 1: hits in percent, 2: round trips */
            : sprintf(__('Cache: %1$d %%, %2$d trips', 'coatcheck'), $asked ? 100 * $info['hits'] / $asked : 100, $info['round_trips']);
        $bar->add_node([
            'id' => 'coatcheck',
            'title' => esc_html($title),
            'href' => admin_url('options-general.php?page=' . SettingsPage::SLUG),
        ]);
    }
}
