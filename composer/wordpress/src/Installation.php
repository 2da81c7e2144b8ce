<?php

declare(strict_types=1);

namespace Coatcheck\WordPress;

use Coatcheck\Client\Exception\CoatcheckException;
use Coatcheck\Client\Transport\ExtensionTransport;

/**
 * What an administrator sees and does, the same by the page and by the commands.
 */
final class Installation
{
    public function __construct(
        private readonly Settings $settings,
        public readonly DropIn $dropIn,
    ) {
    }

    public static function ofThisSite(): self
    {
        $source = dirname(__DIR__) . '/dropin/object-cache.php';
        return new self(Settings::ofThisSite(), new DropIn($source, WP_CONTENT_DIR . '/object-cache.php'));
    }

    /** Is it our cache that this request uses? */
    public static function cache(): ?ObjectCache
    {
        $cache = $GLOBALS['wp_object_cache'] ?? null;
        return $cache instanceof ObjectCache ? $cache : null;
    }

    /** @return string one of: enabled, outdated, foreign, disabled */
    public function state(): string
    {
        return match (true) {
            $this->dropIn->isCurrent() => 'enabled',
            $this->dropIn->isOurs() => 'outdated',
            $this->dropIn->exists() => 'foreign',
            default => 'disabled',
        };
    }

    /** May the drop-in be put in place and removed? DISALLOW_FILE_MODS and a site's own filter decide. */
    public function mayChangeFiles(): bool
    {
        return wp_is_file_mod_allowed('coatcheck_drop_in');
    }

    /**
     * Puts the drop-in in place. What the daemon has from before is older than the database, so every site is flushed
     * first.
     *
     * @throws \RuntimeException when the site allows no changes to files, the daemon cannot be asked or the file cannot be
     *     written
     */
    public function enable(): void
    {
        $this->requireFileChanges();
        if ($this->state() === 'disabled' && !$this->flushNetwork()) {
            throw new \RuntimeException("nothing was changed: {$this->connection()[1]}");
        }
        $this->dropIn->install();
    }

    /** @throws \RuntimeException when the site allows no changes to files or the file cannot be removed */
    public function disable(): void
    {
        $this->requireFileChanges();
        $this->dropIn->remove();
    }

    /** Empties the cache of this site. @return bool does the daemon know? */
    public function flushSite(): bool
    {
        $space = is_multisite() ? (string) get_current_blog_id() : Spaces::SHARED;
        return self::cache()?->flush() ?? Spaces::of($this->settings)->get($space)->flush();
    }

    /** Empties the cache of a site that is no more. */
    public function flushSpaceOf(int $site): void
    {
        Spaces::of($this->settings)->get((string) $site)->flush();
    }

    /** Empties the cache of every site. @return bool does the daemon know? */
    public function flushNetwork(): bool
    {
        self::cache()?->flush_runtime();
        $spaces = Spaces::of($this->settings);
        $isFlushed = $spaces->shared()->flush();
        foreach (is_multisite() ? get_sites(['fields' => 'ids', 'number' => 0]) : [] as $site) {
            $isFlushed = $spaces->get((string) $site)->flush() && $isFlushed;
        }
        return $isFlushed;
    }

    /** Writes a value and reads it. @return array{bool, string} did it work, and what came of it, in one sentence */
    public function connection(): array
    {
        $from = hrtime(true);
        try {
            $bucket = $this->settings->client()->bucket("{$this->settings->prefix}:test");
            $bucket->set('test', $sent = bin2hex(random_bytes(8)), 10);
            $isSame = $bucket->get('test') === $sent;
        } catch (CoatcheckException $failure) {
            return [false, $failure->getMessage()];
        }
        return $isSame
            ? [true, sprintf('A value was written and read in %.2f ms.', (hrtime(true) - $from) / 1e6)]
            : [false, 'A value was written, and another was read.'];
    }

    /** @return array<string, string> what is to be known, by its title */
    public function status(): array
    {
        try {
            $client = $this->settings->client();
            $daemon = $client->status();
        } catch (CoatcheckException $failure) {
            return ['Drop-in' => $this->state(), 'Daemon' => $failure->getMessage(), 'Notes' => $this->notes()];
        }
        return [
            'Drop-in' => $this->state(),
            'Daemon' => sprintf('%s, up for %d s', $daemon['version'], intdiv((int) $daemon['uptime_ms'], 1000)),
            'Socket' => $client->transport->socket()
                . ($client->transport instanceof ExtensionTransport ? ', by the extension' : ', by a stream'),
            'Values' => sprintf('%d, of all that share the daemon\'s socket', $daemon['values']),
            'Memory' => sprintf('%.1f of %.1f MiB', $daemon['memory'] / 2 ** 20, $daemon['memory_limit'] / 2 ** 20),
            'Evicted' => (string) $daemon['evicted'],
            'Bucket' => $this->settings->prefix,
            'Notes' => $this->notes(),
        ];
    }

    private function requireFileChanges(): void
    {
        if (!$this->mayChangeFiles()) {
            throw new \RuntimeException(
                'this site allows no changes to its files (DISALLOW_FILE_MODS): whoever deploys it puts '
                . "{$this->dropIn->target} in place or removes it, then flushes every site"
            );
        }
    }

    /** Where it is noted that the daemon was not told of a change. */
    private function notes(): string
    {
        $wanted = $this->settings->stateDirectories;
        $directory = (new MissedWrites($wanted, $this->settings->secret))->directory();
        return match ($directory) {
            null => 'cannot be written to ' . implode(' or ', $wanted)
                . ': an outage leaves old values, set COATCHECK_STATE_DIR',
            $wanted[0] => "in $directory",
            default => "in $directory, because $wanted[0] cannot be written to",
        };
    }
}
