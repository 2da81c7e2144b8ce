<?php

declare(strict_types=1);

namespace Coatcheck\Session\Tests;

use Coatcheck\Tests\Packages\Daemon;
use Coatcheck\Tests\Packages\WebServer;
use PHPUnit\Framework\Attributes\DataProvider;

/**
 * PHP's callbacks in all their orders.
 */
final class LifeCycleTest extends SessionTestCase
{
    public function testALockedRequestCostsTwoRoundTrips(): void
    {
        $this->page('start', 'counted', ['set' => 'v'])->body();
        $before = $this->requests();
        $this->page('start', 'counted', ['set' => 'w'])->body(); // written
        $this->page('start', 'counted')->body(); // only touched
        self::assertSame(['session.commit' => 2.0, 'session.open' => 2.0], $this->requestsSince($before));
    }

    public function testStrictModeCostsNoRoundTripForAKnownSession(): void
    {
        $ini = ['session.use_strict_mode' => '1'];
        $this->page('start', 'known', ['set' => 'v'])->body();
        $before = $this->requests();
        self::assertStringContainsString('{"set":"v"}', $this->page('start', 'known', [], [], $ini)->body());
        self::assertSame(['session.commit' => 1.0, 'session.open' => 1.0], $this->requestsSince($before));
    }

    public function testStrictModeRefusesAnUnknownId(): void
    {
        $page = $this->page('start', 'made-up', ['set' => 'v'], [], ['session.use_strict_mode' => '1']);
        self::assertMatchesRegularExpression('/Set-Cookie: PHPSESSID=[A-Za-z0-9,-]{20,}/', $page->end());
        self::assertNull($this->stored('made-up'));
        self::assertSame(0, $this->locks());
    }

    public function testAVisitorWithoutACookieGetsASession(): void
    {
        $page = $this->page('start', '', ['set' => 'v']);
        self::assertSame(1, preg_match('/Set-Cookie: PHPSESSID=([A-Za-z0-9,-]{20,})/', $page->end(), $match));
        self::assertSame('set|s:1:"v";', $this->stored($match[1]));
    }

    public function testAnUnchangedSessionIsOnlyTouchedAndOneThatVanishedIsWritten(): void
    {
        $this->page('start', 'touched', ['set' => 'v'], [], ['session.gc_maxlifetime' => '100'])->body();
        $this->page('start', 'touched', [], [], ['session.gc_maxlifetime' => '1000'])->body();
        self::assertGreaterThan(900_000, $this->client->sessions('touche')[0]['ttl_ms']);
        self::assertSame('set|s:1:"v";', $this->stored('touched'));
    }

    public function testALifetimeOfZeroIsTheDefaultOne(): void
    {
        $this->page('start', 'zero', ['set' => 'v'], [], ['session.gc_maxlifetime' => '0'])->body();
        self::assertGreaterThan(1_400_000, $this->client->sessions('zero')[0]['ttl_ms']);
    }

    /**
     * @dataProvider endings
     */
    #[DataProvider('endings')]
    public function testEveryEndingWritesAndReleases(string $how): void
    {
        $this->page('end', "end-$how", ['how' => $how])->body();
        self::assertSame('ended|s:' . strlen($how) . ":\"$how\";", $this->stored("end-$how"));
        self::assertSame(0, $this->locks());
    }

    /** @return array<string, array{string}> */
    public static function endings(): array
    {
        return ['exit' => ['exit'], 'exception' => ['exception'], 'memory' => ['memory'], 'nothing' => ['nothing']];
    }

    public function testAnExceptionInAWrappedReadLeavesNoLockOnAKeptConnection(): void
    {
        $server = new WebServer(
            __DIR__ . '/pages',
            ['OPTIONS' => json_encode(['socket' => $this->daemon->socket]), 'PATH' => (string) getenv('PATH')],
        );
        $cookie = ['Cookie' => 'PHPSESSID=wrapped'];
        self::assertStringContainsString('thrown after the lock was taken', $server->get('wrapped.php', [], $cookie));
        Daemon::eventually('the lock is free', fn () => $this->locks() === 0, 5.0);
        self::assertSame("bool(true)\n[]\nbool(true)\n", $server->get('start.php', ['set' => 'v'], $cookie));
        self::assertSame("bool(true)\n{\"set\":\"v\"}\nbool(true)\n", $server->get('start.php', [], $cookie));
        self::assertSame(2, $this->client->status()['connections'], 'one is kept over the requests, the other is ours');
    }

    public function testMethodsThatAreCalledOutOfTurn(): void
    {
        self::assertSame(
            [
                'string(0) ""', // an empty session
                'bool(true)', // written beside the current one
                'bool(true)', 'bool(true)', 'bool(true)',
                'bool(true)', 'string(14) "written beside"', 'int(0)', 'bool(true)',
                'bool(true)', 'bool(true)',
                'bool(true)', 'bool(true)',
            ],
            explode("\n", trim($this->page('other')->body())),
        );
        self::assertSame('again', $this->stored('current'));
        self::assertSame(0, $this->locks());
    }

    public function testIdsAreThoseOfTheFilesHandler(): void
    {
        $body = $this->page('ids')->body();
        self::assertSame(28, substr_count($body, "bool(false)\n"));
        self::assertSame(2, substr_count($body, "string(0) \"\"\n"));
        self::assertStringContainsString('the session id is empty, longer than 256 characters or has', $body);
        self::assertSame(1, substr_count($body, 'Warning: '), $body);
    }

    public function testAnOutageIsNeverAnEmptySession(): void
    {
        $this->page('start', 'kept', ['set' => 'v'])->body();
        $this->daemon->kill();
        $body = $this->page('start', 'kept', [], [], ['session.use_strict_mode' => '1']);
        $answer = $body->end();
        self::assertStringContainsString('session kept… is not read', $answer);
        self::assertStringContainsString('no daemon listens on it', $answer);
        self::assertStringContainsString("bool(false)\n", $answer);
        self::assertStringNotContainsString('Set-Cookie', $answer, 'an outage does not cost the cookie');
    }

    public function testADaemonKilledBetweenReadAndWrite(): void
    {
        $holder = $this->holder('lost');
        $this->daemon->kill();
        $this->open();
        self::assertMatchesRegularExpression('/session lost… is (perhaps )?not written/', $holder->body());
    }

    public function testADaemonThatHangsIsATimeout(): void
    {
        $this->page('start', 'hangs', ['set' => 'v'])->body();
        $this->daemon->pause();
        $body = getenv('COATCHECK_TEST_MODE') === 'extension'
            ? $this->page('start', 'hangs', [], ['lock_wait' => 0], ['coatcheck.timeout_ms' => '200'])->body()
            : $this->page('start', 'hangs', [], ['lock_wait' => 0, 'timeout_ms' => 200])->body();
        $this->daemon->resume();
        self::assertStringContainsString('session hangs… is not read: session.open: no answer', $body);
        self::assertStringContainsString("bool(false)\n", $body);
    }

    public function testTheSavePathCarriesSettings(): void
    {
        $path = "unix://{$this->daemon->socket}?prefix=a%20shop&lock_wait=5";
        $wrong = ['socket' => '/nowhere.sock'];
        $this->page('start', 'configured', ['set' => 'v'], $wrong, ['session.save_path' => $path])->body();
        self::assertSame('set|s:1:"v";', $this->stored('configured', 'a shop'));
        $bad = "unix://{$this->daemon->socket}?lock_wiat=5";
        self::assertStringContainsString(
            'coatcheck: session.save_path: unknown option lock_wiat; there are lock_wait,',
            $this->page('start', 'configured', [], [], ['session.save_path' => $bad])->body(),
        );
        $directory = ['session.save_path' => '/tmp'];
        $this->page('start', 'plain', ['set' => 'v'], [], $directory)->body();
        self::assertSame('set|s:1:"v";', $this->stored('plain'));
    }

    /** @return array<string, float> how often each session method was asked for */
    private function requests(): array
    {
        $text = $this->daemon->metrics();
        preg_match_all('/^coatcheck_requests_total\{[^}]*method="(session\.[a-z_]+)"[^}]*\} (\S+)$/m', $text, $matches);
        $counts = [];
        foreach ($matches[1] as $at => $method) {
            $counts[$method] = ($counts[$method] ?? 0.0) + (float) $matches[2][$at];
        }
        return $counts;
    }

    /**
     * @param array<string, float> $before
     * @return array<string, float>
     */
    private function requestsSince(array $before): array
    {
        $since = [];
        foreach ($this->requests() as $method => $count) {
            $since[$method] = $count - ($before[$method] ?? 0.0);
        }
        ksort($since);
        return array_filter($since);
    }
}
