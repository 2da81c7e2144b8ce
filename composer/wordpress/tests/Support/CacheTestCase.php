<?php

declare(strict_types=1);

namespace Coatcheck\WordPress\Tests\Support;

use Coatcheck\Client\Client;
use Coatcheck\Tests\Packages\Daemon as TestDaemon;
use Coatcheck\WordPress\Daemon;
use Coatcheck\WordPress\Foresight;
use Coatcheck\WordPress\MissedWrites;
use Coatcheck\WordPress\ObjectCache;
use Coatcheck\WordPress\Spaces;
use PHPUnit\Framework\TestCase;

/**
 * Makes caches as PHP requests have them: each with a copy of its own, all of one installation.
 */
abstract class CacheTestCase extends TestCase
{
    protected string $prefix;
    protected string $stateDirectory;
    protected string $socket;
    protected float $timeoutSeconds = 5.0;

    /** Of the cache that was made last. */
    protected CountingTransport $transport;

    protected function setUp(): void
    {
        $this->prefix = 'test-' . bin2hex(random_bytes(6));
        $this->stateDirectory = getenv('COATCHECK_TEST_DIR') . "/$this->prefix";
        mkdir($this->stateDirectory);
        $this->socket = TestDaemon::sharedSocket();
        $GLOBALS['doing_it_wrong'] = [];
    }

    /**
     * @param int|null $site of a network; null for a single site
     * @param string|null $page the kind of page that it is for
     */
    protected function request(?int $site = null, ?string $page = null): ObjectCache
    {
        $transport = $this->transport = new CountingTransport($this->client()->transport);
        $missed = new MissedWrites([$this->stateDirectory], 'secret');
        $spaces = new Spaces(new Daemon(static fn () => $transport), $missed, $this->prefix);
        $cache = new ObjectCache($spaces, new Foresight($spaces, $page), $site);
        $cache->add_global_groups(['users', 'site-options', 'global-group']);
        $cache->add_non_persistent_groups('counts');
        return $cache;
    }

    protected function client(): Client
    {
        return Client::connect($this->socket, ['timeout' => $this->timeoutSeconds]);
    }

    /** Whatever the function logs does not reach the suite's own output. @return list<string> the lines */
    protected function logged(callable $function): array
    {
        $file = "$this->stateDirectory/log";
        $before = ini_set('error_log', $file);
        try {
            $function();
        } finally {
            ini_set('error_log', (string) $before);
        }
        return is_file($file) ? file($file, FILE_IGNORE_NEW_LINES) : [];
    }
}
