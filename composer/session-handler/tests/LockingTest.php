<?php

declare(strict_types=1);

namespace Coatcheck\Session\Tests;

use Coatcheck\Tests\Packages\Daemon;
use PHPUnit\Framework\Attributes\DataProvider;

/**
 * One request at a time works with a session, and none overwrites another's changes.
 */
final class LockingTest extends SessionTestCase
{
    public function testTwentyParallelRequestsLoseNothing(): void
    {
        $pages = array_map(fn () => $this->page('count', 'parallel'), range(1, 20));
        foreach ($pages as $page) {
            self::assertSame('', trim($page->body()));
        }
        self::assertSame('n|i:20;', $this->stored('parallel'));
        self::assertSame(0, $this->locks());
    }

    public function testAKilledHolderFreesItsLockAtOnce(): void
    {
        $holder = $this->holder('killed');
        $next = $this->page('start', 'killed', ['set' => 'next']);
        Daemon::eventually('it waits', fn () => ($this->client->heldLocks()[0]['waiters'] ?? 0) === 1);
        $began = microtime(true);
        $holder->kill();
        self::assertSame("bool(true)\n[]\nbool(true)\n", $next->body());
        self::assertLessThan(2.0, microtime(true) - $began);
        self::assertSame('set|s:4:"next";', $this->stored('killed'));
    }

    public function testADestroyBeatsASlowerWriter(): void
    {
        $this->page('start', 'doomed', ['set' => 'Ada'])->body();
        $slow = $this->holder('doomed', 'back');
        self::assertStringContainsString(
            "bool(true)\n",
            $this->page('destroy', 'doomed', [], ['lock_wait' => 0])->body(),
        );
        self::assertNull($this->stored('doomed'));
        $this->open('back');
        self::assertStringContainsString(
            'session doomed… is not written: refused as destroyed: another request destroyed the session after this one '
                . 'had read it; it stays destroyed',
            $slow->body(),
        );
        self::assertNull($this->stored('doomed'));
        self::assertSame(0, $this->locks());
        $this->page('start', 'doomed', ['set' => 'Bob'])->body();
        self::assertSame('set|s:3:"Bob";', $this->stored('doomed'));
    }

    public function testAStaleWriteIsRefused(): void
    {
        $this->useDaemon(['COATCHECK_LOCK_MAX_HOLD' => '0s']);
        $a = $this->holder('overrun', 'A', ['lock_lease' => 0.3]);
        $b = $this->holder('overrun', 'B', ['lock_lease' => 600]);
        $this->open('A');
        self::assertStringContainsString(
            'session overru… is not written: refused as superseded: the lease of this request ran out and the lock was '
                . 'granted to another request since; nothing was overwritten',
            $a->body(),
        );
        self::assertNull($this->stored('overrun'));
        self::assertSame(1, $this->locks(), 'B keeps its lock');
        $this->open('B');
        self::assertStringNotContainsString('Warning', $b->body());
        self::assertSame('by|s:1:"B";', $this->stored('overrun'));
    }

    public function testALateButLoneWriterIsAccepted(): void
    {
        $this->useDaemon(['COATCHECK_LOCK_MAX_HOLD' => '0s']);
        $late = $this->holder('lone', 'late', ['lock_lease' => 0.1]);
        Daemon::eventually('the lease is over', fn () => $this->locks() === 0);
        $this->open('late');
        self::assertStringNotContainsString('Warning', $late->body());
        self::assertSame('by|s:4:"late";', $this->stored('lone'));
    }

    /**
     * @dataProvider failures
     */
    #[DataProvider('failures')]
    public function testALockThatCannotBeHad(string $mode, string $answer, string $warning, string $stored): void
    {
        $this->page('start', 'contended', ['set' => 'before'])->body();
        $holder = $this->holder('contended');
        $body = $this->page(
            'start',
            'contended',
            ['set' => 'other'],
            ['lock_failure' => $mode, 'lock_wait' => 0.2],
        )->body();
        self::assertMatchesRegularExpression(
            '~coatcheck at \S+: session conten… is busy after 0\.2 s of waiting: pid \d+ \(cgi-fcgi, \S+/hold\.php\) has held '
                . 'the lock for \d+\.\d s; ' . $warning . '~',
            $body,
        );
        self::assertStringContainsString($answer, $body);
        self::assertStringContainsString($stored, (string) $this->stored('contended'));
        $this->open();
        self::assertStringNotContainsString('Warning', $holder->body());
        self::assertSame(0, $this->locks());
    }

    /** @return array<string, array{string, string, string, string}> */
    public static function failures(): array
    {
        return [
            'unlocked' => ['unlocked', "bool(true)\n{\"set\":\"before\"}", 'this request goes on without the lock, and', 'other'],
            'readonly' => ['readonly', "bool(true)\n{\"set\":\"before\"}", 'this request goes on without the lock and its '
                . 'changes will be dropped \(lock_failure=readonly\)', 'before'],
            'fail' => ['fail', "bool(false)\n[]", 'the session is not started \(lock_failure=fail\)', 'before'],
        ];
    }

    public function testAReadonlyRequestSaysThatItsChangesAreDropped(): void
    {
        $holder = $this->holder('contended');
        self::assertStringContainsString(
            'session conten… is not written: another request holds its lock, and the changes of this one are dropped',
            $this->page('start', 'contended', ['set' => 'x'], ['lock_failure' => 'readonly', 'lock_wait' => 0])->body(),
        );
        $this->open();
        $holder->end();
    }

    public function testWithoutLocksNobodyWaitsAndTheDestroyedStaysRefused(): void
    {
        $options = ['session_locking' => 'Off'];
        $slow = $this->holder('free', 'slow', $options);
        self::assertSame("bool(true)\n[]\nbool(true)\n", $this->page('start', 'free', [], $options)->body());
        self::assertSame(0, $this->locks());
        $this->page('destroy', 'free', [], $options)->body();
        $this->open('slow');
        self::assertStringContainsString('refused as destroyed', $slow->body());
    }

    public function testRegeneratingMovesDataAndLock(): void
    {
        foreach (['0', '1'] as $delete) {
            $this->page('start', "old$delete", ['set' => 'v'])->body();
            $body = $this->page('regenerate', "old$delete", ['delete' => $delete])->body();
            self::assertSame(1, preg_match("/^bool\\(true\\)\nold old$delete\nnew (\S+)\n$/D", $body, $match), $body);
            self::assertStringContainsString('n|i:2', (string) $this->stored($match[1]));
            self::assertSame($delete === '1', $this->stored("old$delete") === null);
        }
        self::assertSame(0, $this->locks());
    }

    public function testAResetDoesNotWaitForItsOwnLock(): void
    {
        self::assertSame("int(1)\nbool(true)\nbool(true)\n", $this->page('reset', 'reset')->body());
        self::assertSame(0, $this->locks());
    }

    public function testAForkedChildNeitherWritesNorReleases(): void
    {
        $body = $this->page('fork', 'forked')->body();
        self::assertStringContainsString('it belongs to the process that forked this one', $body);
        self::assertStringContainsString('parent ended', $body);
        self::assertSame('by|s:6:"parent";', $this->stored('forked'));
        self::assertSame(0, $this->locks());
    }

    public function testPrefixesAreSeparate(): void
    {
        $this->page('start', 'same', ['set' => 'a'], ['prefix' => 'a'])->body();
        $this->page('start', 'same', ['set' => 'b'], ['prefix' => 'b'])->body();
        self::assertSame(
            ['set|s:1:"a";', 'set|s:1:"b";', null],
            [$this->stored('same', 'a'), $this->stored('same', 'b'), $this->stored('same')],
        );
    }
}
