<?php

declare(strict_types=1);

namespace Coatcheck\WordPress\Admin;

use Coatcheck\WordPress\Installation;

/**
 * The page under Settings: what state the cache is in, a flush, a test, and for whoever may do so the switch.
 *
 * An administrator of one site of a network may flush that site. The drop-in, and the figures of the daemon, concern all
 * sites and belong to those who manage the network.
 */
final class SettingsPage
{
    public const SLUG = 'coatcheck';

    /** @var array{bool, string}|null did it work, and what came of it */
    private ?array $outcome = null;

    public function __construct(private readonly Installation $installation)
    {
    }

    public function addToSite(): void
    {
        $hook = add_options_page('coatcheck', 'coatcheck', 'manage_options', self::SLUG, $this->show(...));
        add_action("load-$hook", $this->act(...));
    }

    public function addToNetwork(): void
    {
        $capability = 'manage_network_options';
        $hook = add_submenu_page('settings.php', 'coatcheck', 'coatcheck', $capability, self::SLUG, $this->show(...));
        add_action("load-$hook", $this->act(...));
    }

    /**
     * @param array<array-key, string> $links
     * @return array<array-key, string>
     */
    public function addLink(array $links): array
    {
        $url = admin_url('options-general.php?page=' . self::SLUG);
        array_unshift($links, sprintf('<a href="%s">%s</a>', esc_url($url), esc_html__('Settings', 'coatcheck')));
        return $links;
    }

    /** Does what a button asks for. */
    public function act(): void
    {
        $action = $_POST['coatcheck_action'] ?? null;
        if (!is_string($action)) {
            return;
        }
        check_admin_referer("coatcheck-$action");
        $isAllowed = match ($action) {
            'enable', 'disable', 'flush-network' => self::mayManageAll(),
            default => current_user_can('manage_options'),
        };
        if (!$isAllowed) {
            wp_die(esc_html__('You are not allowed to do this.', 'coatcheck'), '', ['response' => 403]);
        }
        try {
            $this->outcome = $this->carryOut($action);
        } catch (\RuntimeException $failure) {
            $this->outcome = [false, $failure->getMessage()];
        }
    }

    public function show(): void
    {
        echo '<div class="wrap"><h1>coatcheck</h1>';
        if ($this->outcome !== null) {
            [$worked, $text] = $this->outcome;
            printf(
                '<div class="notice notice-%s" id="coatcheck-outcome"><p>%s</p></div>',
                $worked ? 'success' : 'error',
                esc_html($text),
            );
        }
        $this->showStatus();
        $this->showButtons();
        echo '</div>';
    }

    /** @return array{bool, string} */
    private function carryOut(string $action): array
    {
        switch ($action) {
            case 'enable':
                $this->installation->enable();
                return [true, __('The object cache is enabled from the next page on.', 'coatcheck')];
            case 'disable':
                $this->installation->disable();
                return [true, __('The object cache is disabled from the next page on.', 'coatcheck')];
            case 'flush':
                return self::flushed($this->installation->flushSite());
            case 'flush-network':
                return self::flushed($this->installation->flushNetwork());
            case 'test':
                return $this->installation->connection();
            default:
                return [false, __('There is no such action.', 'coatcheck')];
        }
    }

    /** @return array{bool, string} */
    private static function flushed(bool $isFlushed): array
    {
        return $isFlushed
            ? [true, __('The cache is empty.', 'coatcheck')]
            : [false, __('The daemon does not answer: the cache is emptied before it is used again.', 'coatcheck')];
    }

    private function showStatus(): void
    {
        $status = $this->installation->status();
        echo '<table class="widefat striped" style="max-width: 60em"><tbody>';
        foreach (self::mayManageAll() ? $status : array_slice($status, 0, 1) as $title => $text) {
            printf('<tr><th scope="row">%s</th><td>%s</td></tr>', esc_html($title), esc_html($text));
        }
        echo '</tbody></table>';
    }

    private function showButtons(): void
    {
        $buttons = [
            'flush' => __('Flush this site', 'coatcheck'),
            'test' => __('Test the connection', 'coatcheck'),
        ];
        if (self::mayManageAll()) {
            $buttons += is_multisite() ? ['flush-network' => __('Flush all sites', 'coatcheck')] : [];
            $buttons += !$this->installation->mayChangeFiles() ? [] : match ($this->installation->state()) {
                'enabled' => ['disable' => __('Disable the object cache', 'coatcheck')],
                'outdated' => [
                    'enable' => __('Update the drop-in', 'coatcheck'),
                    'disable' => __('Disable the object cache', 'coatcheck'),
                ],
                'foreign' => [],
                default => ['enable' => __('Enable the object cache', 'coatcheck')],
            };
        }
        foreach ($buttons as $action => $text) {
            echo '<form method="post" style="display: inline-block; margin: 1em 1em 0 0">';
            wp_nonce_field("coatcheck-$action");
            printf('<input type="hidden" name="coatcheck_action" value="%s">', esc_attr($action));
            printf('<button class="button">%s</button></form>', esc_html($text));
        }
    }

    private static function mayManageAll(): bool
    {
        return current_user_can(is_multisite() ? 'manage_network_options' : 'manage_options');
    }
}
