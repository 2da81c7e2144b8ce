<?php

declare(strict_types=1);

namespace Coatcheck\WordPress\Tests;

use Coatcheck\Tests\Packages\Daemon;
use Coatcheck\WordPress\Tests\Support\CacheTestCase;
use PHPUnit\Framework\Attributes\DataProvider;

/**
 * A request goes on without its daemon, and nothing is older than the database when the daemon is back.
 */
final class OutageTest extends CacheTestCase
{
    private Daemon $daemon;

    protected function setUp(): void
    {
        parent::setUp();
        $this->daemon = Daemon::start();
        $this->socket = $this->daemon->socket;
        $this->timeoutSeconds = 0.5;
    }

    public function testWithoutADaemonARequestHasWordPressOwnCacheAndOneLineInTheLog(): void
    {
        $this->daemon->stop();
        $lines = $this->logged(function (): void {
            $cache = $this->request();
            self::assertFalse($cache->get('key'));
            self::assertTrue($cache->add('key', 5));
            self::assertFalse($cache->add('key', 6));
            self::assertSame(5, $cache->get('key', '', true));
            self::assertSame(7, $cache->incr('key', 2));
            self::assertSame(0, $cache->decr('key', 20));
            self::assertFalse($cache->incr('other'));
            self::assertTrue($cache->replace('key', 'text'));
            self::assertFalse($cache->replace('other', 'text'));
            self::assertSame(['key' => 'text', 'other' => false], $cache->get_multiple(['key', 'other']));
            self::assertSame(['a' => true, 'key' => true], $cache->set_multiple(['a' => 1, 'key' => 2]));
            self::assertSame(['a' => true, 'other' => false], $cache->delete_multiple(['a', 'other']));
            self::assertTrue($cache->add('alloptions', ['a' => '1'], 'options'));
            self::assertFalse($cache->add('alloptions', ['a' => '2'], 'options'));
            self::assertTrue($cache->set('alloptions', ['a' => '3'], 'options'));
            self::assertSame(['a' => '3'], $cache->get('alloptions', 'options', true));
            self::assertFalse($cache->flush(), 'the daemon does not know');
            self::assertFalse($cache->get('key'));
            self::assertTrue($cache->close());
            self::assertNotNull($cache->info()['trouble']);
        });
        self::assertCount(1, $lines, implode("\n", $lines));
        self::assertStringContainsString($this->socket, $lines[0]);
    }

    public function testADaemonThatDiesInTheMiddleLeavesTheRequestWhatItHas(): void
    {
        $cache = $this->request();
        $cache->set('key', 'value');
        $lines = $this->logged(function () use ($cache): void {
            $this->daemon->kill();
            self::assertSame('value', $cache->get('key', '', true));
            self::assertTrue($cache->set('other', 'value'));
            self::assertSame('value', $cache->get('other'));
            $this->daemon->startAgain();
            self::assertFalse($cache->get('third'), 'and it stays with that: no half state');
            self::assertSame('value', $cache->get('other', '', true));
        });
        self::assertCount(1, $lines, implode("\n", $lines));
    }

    public function testADaemonThatHangsCostsARequestItsTimeLimitOnce(): void
    {
        $cache = $this->request();
        $cache->set('key', 'value');
        $this->daemon->pause();
        $from = microtime(true);
        $lines = $this->logged(static function () use ($cache): void {
            foreach (range(1, 20) as $number) {
                $cache->get("key $number");
            }
        });
        self::assertLessThan(4.0, microtime(true) - $from);
        self::assertCount(1, $lines);
        $this->daemon->resume();
    }

    /** @dataProvider changes */
    #[DataProvider('changes')]
    public function testWhatChangedMeanwhileIsReadFromTheDatabaseAfterwards(callable $change): void
    {
        $cache = $this->request();
        $cache->set('key', 'old', 'g');
        $cache->set('alloptions', ['a' => 'old'], 'options');
        $this->daemon->pause();
        $this->logged(function () use ($change): void {
            $change($this->request());
        });
        $this->daemon->resume();
        $cache = $this->request();
        self::assertFalse($cache->get('key', 'g'));
        self::assertFalse($cache->get('alloptions', 'options'));
        $cache->set('key', 'new', 'g');
        self::assertSame('new', $this->request()->get('key', 'g'), 'it is flushed once');
    }

    /** @return array<string, array{callable}> */
    public static function changes(): array
    {
        return [
            'set' => [static fn ($cache) => $cache->set('key', 'new', 'g')],
            'delete' => [static fn ($cache) => $cache->delete('key', 'g')],
            'incr' => [static fn ($cache) => $cache->incr('key', 1, 'g')],
            'options' => [static fn ($cache) => $cache->set('alloptions', ['a' => 'new'], 'options')],
            'flush' => [static fn ($cache) => $cache->flush()],
            'flush of a group' => [static fn ($cache) => $cache->flush_group('g')],
        ];
    }

    public function testWhatIsOnlyAddedMeanwhileCostsNobodyHisValues(): void
    {
        $this->request()->set('key', 'value');
        $this->daemon->pause();
        $this->logged(function (): void {
            $cache = $this->request();
            $cache->get('other');
            $cache->add('other', 'value');
        });
        $this->daemon->resume();
        self::assertSame('value', $this->request()->get('key'));
    }

    public function testAFlushAfterAnOutageIsNotRepeatedByTheNextRequest(): void
    {
        $missed = new \Coatcheck\WordPress\MissedWrites([$this->stateDirectory], 'secret');
        $missed->note("$this->prefix:all");
        $cache = $this->request();
        $cache->flush();
        $cache->set('key', 'value');
        self::assertSame('value', $this->request()->get('key'));
    }

    public function testOneSiteThatChangedMeanwhileIsFlushedAlone(): void
    {
        $this->request(1)->set('key', 'value');
        $this->request(2)->set('key', 'value');
        $this->daemon->pause();
        $this->logged(function (): void {
            $this->request(2)->delete('key');
        });
        $this->daemon->resume();
        self::assertSame('value', $this->request(1)->get('key'));
        self::assertFalse($this->request(2)->get('key'));
    }

    public function testAWorkerThatFlushesItsCopyAsksTheDaemonAgain(): void
    {
        $worker = $this->request();
        $this->daemon->stop();
        $this->logged(static fn () => $worker->set('key', 'value'));
        $this->daemon->startAgain();
        $worker->flush_runtime();
        $worker->set('key', 'again');
        self::assertSame('again', $this->request()->get('key'));
    }

    public function testANoteIsWrittenThroughNoLink(): void
    {
        $this->daemon->stop();
        $this->logged(fn () => $this->request()->delete('key'));
        $notes = glob("$this->stateDirectory/.coatcheck-*");
        self::assertCount(1, $notes);
        unlink($notes[0]);
        file_put_contents("$this->stateDirectory/victim", 'precious');
        symlink("$this->stateDirectory/victim", $notes[0]);
        $this->logged(fn () => $this->request()->delete('key'));
        self::assertSame('precious', file_get_contents("$this->stateDirectory/victim"));
    }

    public function testANoteThatCanBeWrittenNowhereIsSaidOnceInTheLog(): void
    {
        $missed = new \Coatcheck\WordPress\MissedWrites(["$this->stateDirectory/none"], 'secret');
        $lines = $this->logged(static function () use ($missed): void {
            self::assertFalse($missed->note('bucket'));
            self::assertFalse($missed->note('bucket'));
        });
        self::assertNull($missed->directory());
        self::assertCount(1, $lines, implode("\n", $lines));
        self::assertStringContainsString("$this->stateDirectory/none", $lines[0]);
    }

    public function testANoteGoesToTheNextDirectoryThatTakesIt(): void
    {
        $directories = ["$this->stateDirectory/none", $this->stateDirectory];
        $missed = new \Coatcheck\WordPress\MissedWrites($directories, 'secret');
        self::assertTrue($missed->note('bucket'));
        self::assertSame($this->stateDirectory, $missed->directory());
        self::assertNotNull($missed->latest('bucket'));
    }
}
