<?php

declare(strict_types=1);

namespace Coatcheck\WordPress\Cli;

use Coatcheck\WordPress\Installation;

/**
 * Looks after the object cache that coatcheck keeps.
 */
final class CoatcheckCommand
{
    public function __construct(private readonly Installation $installation)
    {
    }

    /**
     * Shows the drop-in's state and the daemon's.
     *
     * ## EXAMPLES
     *
     *     wp coatcheck status
     */
    public function status(): void
    {
        foreach ($this->installation->status() as $title => $text) {
            \WP_CLI::line(str_pad("$title:", 10) . $text);
        }
        \WP_CLI::line(str_pad('Test:', 10) . $this->installation->connection()[1]);
    }

    /**
     * Empties the cache of this site, and of no other.
     *
     * ## OPTIONS
     *
     * [--network]
     * : Empties that of every site.
     *
     * ## EXAMPLES
     *
     *     wp coatcheck flush --url=shop.example.com
     *
     * @param list<string> $arguments
     * @param array<string, mixed> $options
     */
    public function flush(array $arguments = [], array $options = []): void
    {
        $isFlushed = isset($options['network']) ? $this->installation->flushNetwork() : $this->installation->flushSite();
        $isFlushed
            ? \WP_CLI::success('The cache is empty.')
            : \WP_CLI::error('The daemon does not answer: the cache is emptied before it is used again.');
    }

    /**
     * Puts the drop-in in place, after a flush of every site.
     */
    public function enable(): void
    {
        $this->attempt($this->installation->enable(...), 'The object cache is enabled.');
    }

    /**
     * Removes the drop-in. WordPress goes on with its own cache.
     */
    public function disable(): void
    {
        $this->attempt($this->installation->disable(...), 'The object cache is disabled.');
    }

    /** @param callable(): void $action */
    private function attempt(callable $action, string $success): void
    {
        try {
            $action();
        } catch (\RuntimeException $failure) {
            \WP_CLI::error($failure->getMessage());
            return;
        }
        \WP_CLI::success($success);
    }
}
