<?php

declare(strict_types=1);

namespace Coatcheck\Session\Tests;

use Coatcheck\Client\Client;
use Coatcheck\Tests\Packages\Daemon;
use Coatcheck\Tests\Packages\Ini;
use Coatcheck\Tests\Packages\Page;
use PHPUnit\Framework\TestCase;

/**
 * Requests of a real PHP to the scripts in pages/, over a daemon of the test's own. In the extension's run the pages load
 * the extension too, and the handler asks through it.
 */
abstract class SessionTestCase extends TestCase
{
    protected Daemon $daemon;
    protected Client $client;

    protected function setUp(): void
    {
        $this->useDaemon([]);
    }

    /** @param array<string, string> $settings */
    protected function useDaemon(array $settings): void
    {
        $this->daemon = Daemon::start($settings);
        $this->client = Client::connect($this->daemon->socket, ['transport' => 'stream']);
    }

    /**
     * @param array<string, string> $query
     * @param array<string, mixed> $options of the handler
     * @param array<string, string> $ini
     */
    protected function page(
        string $name,
        string $id = '',
        array $query = [],
        array $options = [],
        array $ini = [],
    ): Page {
        if (getenv('COATCHECK_TEST_MODE') === 'extension') {
            $ini += Ini::extension($this->daemon->socket);
        }
        return Page::begin(
            __DIR__ . "/pages/$name.php",
            $query,
            $id === '' ? '' : "PHPSESSID=$id",
            ['OPTIONS' => json_encode($options + ['socket' => $this->daemon->socket], JSON_THROW_ON_ERROR)],
            $ini,
        );
    }

    /**
     * A request that holds the session until gate() is opened.
     *
     * @param array<string, mixed> $options
     * @param array<string, string> $ini
     */
    protected function holder(string $id, string $by = 'holder', array $options = [], array $ini = []): Page
    {
        $page = $this->page('hold', $id, ['gate' => $this->gate($by), 'by' => $by], $options, $ini);
        $page->awaitOutput('held');
        return $page;
    }

    protected function gate(string $by = 'holder'): string
    {
        return dirname($this->daemon->socket) . "/gate-$by";
    }

    protected function open(string $by = 'holder'): void
    {
        touch($this->gate($by));
    }

    protected function stored(string $id, string $prefix = ''): ?string
    {
        $opened = $this->client->openSession($id, prefix: $prefix);
        return $opened->isFound ? $opened->data : null;
    }

    protected function locks(): int
    {
        return count($this->client->heldLocks());
    }
}
