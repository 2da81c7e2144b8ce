<?php

declare(strict_types=1);

namespace Coatcheck\WordPress\Tests;

use Coatcheck\WordPress\DropIn;
use Coatcheck\WordPress\Tests\Support\CacheTestCase;

final class DropInTest extends CacheTestCase
{
    private const SOURCE = __DIR__ . '/../dropin/object-cache.php';

    private string $content;
    private DropIn $dropIn;

    protected function setUp(): void
    {
        parent::setUp();
        $this->content = "$this->stateDirectory/wp-content";
        mkdir("$this->content/plugins", 0777, true);
        symlink(dirname(__DIR__), "$this->content/plugins/coatcheck");
        $this->dropIn = new DropIn(self::SOURCE, "$this->content/object-cache.php");
    }

    public function testItIsInstalledUpdatedAndRemoved(): void
    {
        self::assertFalse($this->dropIn->exists());
        $this->dropIn->install();
        self::assertTrue($this->dropIn->isCurrent());
        file_put_contents($this->dropIn->target, "\n", FILE_APPEND);
        self::assertTrue($this->dropIn->isOurs());
        self::assertFalse($this->dropIn->isCurrent());
        $this->dropIn->install();
        self::assertTrue($this->dropIn->isCurrent());
        $this->dropIn->remove();
        $this->dropIn->remove();
        self::assertSame(['plugins'], array_values(array_diff(scandir($this->content), ['.', '..'])));
    }

    public function testOneOfAnotherPluginIsNeverTouched(): void
    {
        file_put_contents($this->dropIn->target, '<?php // of another');
        foreach ([$this->dropIn->install(...), $this->dropIn->remove(...)] as $attempt) {
            try {
                $attempt();
                self::fail('it was touched');
            } catch (\RuntimeException $failure) {
                self::assertStringContainsString($this->dropIn->target, $failure->getMessage());
            }
        }
        self::assertSame('<?php // of another', file_get_contents($this->dropIn->target));
    }

    public function testWhatCannotBeWrittenIsSaidWithWhatToDo(): void
    {
        $this->expectException(\RuntimeException::class);
        $this->expectExceptionMessage('by hand');
        (new DropIn(self::SOURCE, "$this->content/missing/object-cache.php"))->install();
    }

    public function testItGivesWordPressAllItsFunctionsWithTheirParameters(): void
    {
        $theirs = $this->site('signatures');
        $this->dropIn->install();
        $ours = $this->site('signatures');
        self::assertArrayHasKey('wp_cache_flush_group', $theirs);
        self::assertEquals($theirs, array_intersect_key($ours, $theirs));
        $since69 = [
            'wp_cache_get_multiple_salted', 'wp_cache_get_salted', 'wp_cache_set_multiple_salted', 'wp_cache_set_salted',
        ];
        self::assertEqualsCanonicalizing($since69, array_keys(array_diff_key($ours, $theirs)));
    }

    public function testItsFunctionsAnswerAsWordPressOwnDo(): void
    {
        $theirs = $this->site('values');
        $this->dropIn->install();
        self::assertTrue($this->site('ours'));
        self::assertSame($theirs, $this->site('values'));
    }

    public function testWithoutThePluginWordPressUsesItsOwnCache(): void
    {
        $this->dropIn->install();
        unlink("$this->content/plugins/coatcheck");
        self::assertFalse($this->site('ours', $log));
        self::assertStringContainsString("$this->content/plugins/coatcheck", $log);
        self::assertStringContainsString('wp coatcheck flush --network', $log);
    }

    private function site(string $what, ?string &$log = null): mixed
    {
        if (!is_file('/usr/share/wordpress/wp-includes/cache.php') && getenv('CI') === false) {
            self::markTestSkipped('WordPress is not installed: run tools/install.sh test');
        }
        $process = proc_open(
            [PHP_BINARY, '-d', 'error_log=', __DIR__ . '/pages/site.php', $this->content, $what],
            [['file', '/dev/null', 'r'], ['pipe', 'w'], ['pipe', 'w']],
            $pipes,
            null,
            ['COATCHECK_DSN' => $this->socket, 'PATH' => (string) getenv('PATH')],
        );
        $output = (string) stream_get_contents($pipes[1]);
        $log = (string) stream_get_contents($pipes[2]);
        proc_close($process);
        $answer = json_decode($output, true);
        self::assertSame(JSON_ERROR_NONE, json_last_error(), "$output\n$log");
        return $answer;
    }
}
