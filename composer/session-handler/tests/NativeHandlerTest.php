<?php

declare(strict_types=1);

namespace Coatcheck\Session\Tests;

use Coatcheck\Tests\Packages\Daemon;
use Coatcheck\Tests\Packages\Ini;
use Coatcheck\Tests\Packages\Page;
use PHPUnit\Framework\Attributes\DataProvider;

/**
 * This handler beside the extension's own: they share sessions and locks, and say the same.
 */
final class NativeHandlerTest extends SessionTestCase
{
    public function testTheyReadWhatTheOtherWroteAndWaitForEachOther(): void
    {
        $this->page('start', 'shared', ['set' => 'by the package'])->body();
        self::assertStringContainsString('{"set":"by the package"}', $this->native('start', 'shared', ['set' => 'native'])->body());
        self::assertStringContainsString('{"set":"native"}', $this->page('start', 'shared')->body());
        $holder = $this->native('hold', 'shared', ['gate' => $this->gate()]);
        $holder->awaitOutput('held');
        $waiter = $this->page('start', 'shared');
        Daemon::eventually('it waits', fn () => ($this->client->heldLocks()[0]['waiters'] ?? 0) === 1);
        $this->open();
        $holder->end();
        self::assertStringContainsString('"by":"holder"', $waiter->body());
    }

    public function testTwentyOfBothLoseNothing(): void
    {
        $pages = [];
        for ($i = 0; $i < 10; $i++) {
            $pages[] = $this->page('count', 'both');
            $pages[] = $this->native('count', 'both');
        }
        array_map(static fn (Page $page) => $page->end(), $pages);
        self::assertSame('n|i:20;', $this->stored('both'));
    }

    /**
     * @dataProvider troubles
     */
    #[DataProvider('troubles')]
    public function testTheyWarnAlike(string $mode): void
    {
        $holder = $this->holder('contended');
        $options = ['lock_failure' => $mode, 'lock_wait' => '0'];
        $ours = $this->page('start', 'contended', ['set' => 'x'], $options)->body();
        $native = $this->native('start', 'contended', ['set' => 'x'], $options)->body();
        self::assertSame(self::warnings($native), self::warnings($ours));
        self::assertNotSame([], self::warnings($ours));
        $this->open();
        $holder->end();
    }

    /** @return array<string, array{string}> */
    public static function troubles(): array
    {
        return ['fail' => ['fail'], 'readonly' => ['readonly'], 'unlocked' => ['unlocked']];
    }

    public function testTheyWarnAlikeOfADestroyedSessionAndOfAnOutage(): void
    {
        $warnings = [];
        foreach (['page', 'native'] as $which) {
            $slow = $this->{$which}('hold', 'doomed', ['gate' => $this->gate($which)]);
            $slow->awaitOutput('held');
            $this->client->destroySession('doomed');
            $this->open($which);
            $warnings[$which] = self::warnings($slow->body());
        }
        self::assertSame($warnings['native'], $warnings['page']);
        self::assertNotSame([], $warnings['page']);
        $this->daemon->kill();
        self::assertSame(
            self::warnings($this->native('start', 'outage')->body()),
            self::warnings($this->page('start', 'outage')->body()),
        );
    }

    public function testRegisterSaysWhichHandlerIsBetterWhereTheExtensionIsLoaded(): void
    {
        $ini = Ini::extension($this->daemon->socket);
        self::assertMatchesRegularExpression(
            '/^silently: The extension coatcheck is loaded: session\.save_handler = coatcheck .* better choice/',
            $this->page('advice', 'advice', [], [], $ini)->body(),
        );
    }

    public function testRegisterSaysNothingWithoutTheExtension(): void
    {
        if (getenv('COATCHECK_TEST_MODE') === 'stream') {
            self::assertSame("bool(true)\n", $this->page('advice', 'advice')->body());
        } else {
            self::assertStringContainsString('silently', $this->page('advice', 'advice')->body());
        }
    }

    /**
     * A request whose sessions the extension keeps.
     *
     * @param array<string, string> $query
     * @param array<string, string> $settings
     */
    private function native(string $name, string $id, array $query = [], array $settings = []): Page
    {
        $ini = ['session.save_handler' => 'coatcheck'] + Ini::extension($this->daemon->socket);
        foreach ($settings as $setting => $value) {
            $ini["coatcheck.$setting"] = $value;
        }
        return Page::begin(__DIR__ . "/pages/$name.php", $query, "PHPSESSID=$id", [], $ini);
    }

    /**
     * The warnings of ours in a page, without what differs by nature: which function warns, times and the prefix that the
     * extension's settings have.
     *
     * @return list<string>
     */
    private static function warnings(string $body): array
    {
        preg_match_all('/coatcheck at .*? in \S+ on line \d+$/m', $body, $matches);
        return array_map(
            static fn (string $warning) => (string) preg_replace(
                ['/ in \S+ on line \d+$/', '/\d+\.\d s/', '/coatcheck\.lock_/'],
                ['', 'N s', 'lock_'],
                $warning,
            ),
            $matches[0],
        );
    }
}
