<?php

declare(strict_types=1);

namespace Coatcheck\WordPress\Tests;

use Coatcheck\WordPress\Cli\CoatcheckCommand;
use Coatcheck\WordPress\DropIn;
use Coatcheck\WordPress\Installation;
use Coatcheck\WordPress\Settings;
use Coatcheck\WordPress\Tests\Support\CacheTestCase;
use Coatcheck\WordPress\Tests\Support\WpCli;

final class CommandTest extends CacheTestCase
{
    private string $target;

    public static function setUpBeforeClass(): void
    {
        class_exists('WP_CLI', false) || class_alias(WpCli::class, 'WP_CLI');
    }

    protected function setUp(): void
    {
        parent::setUp();
        $this->target = "$this->stateDirectory/object-cache.php";
        WpCli::$printed = [];
    }

    protected function tearDown(): void
    {
        unset($GLOBALS['sites'], $GLOBALS['wp_object_cache'], $GLOBALS['no_file_changes']);
    }

    public function testStatusTellsTheDropInsStateAndTheDaemons(): void
    {
        $this->command()->status();
        $printed = implode("\n", WpCli::$printed);
        self::assertMatchesRegularExpression('/^Drop-in: +disabled$/m', $printed);
        self::assertMatchesRegularExpression('/^Socket: +' . preg_quote($this->socket, '/') . '/m', $printed);
        self::assertMatchesRegularExpression('/^Test: +A value was written and read in/m', $printed);
    }

    public function testStatusTellsWhereNotesAreWrittenOrThatTheyCannotBe(): void
    {
        $this->command()->status();
        self::assertContains("Notes:    in $this->stateDirectory", WpCli::$printed);
        $this->stateDirectory .= '/none';
        $this->socket = "$this->stateDirectory/nobody.sock";
        $this->command()->status();
        self::assertStringContainsString('Notes:    cannot be written to', implode("\n", WpCli::$printed));
    }

    public function testEnableFlushesEverySiteAndPutsTheDropInInPlace(): void
    {
        $GLOBALS['sites'] = [1, 2];
        foreach ([1, 2] as $site) {
            $this->request($site)->set('key', 'older than the database');
        }
        $this->request(1)->set('key', 'older than the database', 'users');
        $this->command()->enable();
        self::assertSame(['Success: The object cache is enabled.'], WpCli::$printed);
        self::assertFileExists($this->target);
        self::assertFalse($this->request(1)->get('key'));
        self::assertFalse($this->request(2)->get('key'));
        self::assertFalse($this->request(2)->get('key', 'users'));
    }

    public function testEnableChangesNothingWithoutADaemon(): void
    {
        $this->socket = "$this->stateDirectory/nobody.sock";
        $this->logged(fn () => $this->command()->enable());
        self::assertStringStartsWith('Error: nothing was changed', WpCli::$printed[0]);
        self::assertFileDoesNotExist($this->target);
    }

    public function testDisableRemovesTheDropIn(): void
    {
        $this->command()->enable();
        $this->command()->disable();
        self::assertSame('Success: The object cache is disabled.', WpCli::$printed[1]);
        self::assertFileDoesNotExist($this->target);
    }

    public function testWhereFilesMayNotBeChangedTheDropInStaysAsItIs(): void
    {
        $GLOBALS['no_file_changes'] = true;
        $this->command()->enable();
        self::assertFileDoesNotExist($this->target);
        unset($GLOBALS['no_file_changes']);
        $this->command()->enable();
        $GLOBALS['no_file_changes'] = true;
        $this->command()->disable();
        self::assertFileExists($this->target);
        self::assertStringContainsString('Error: this site allows no changes', WpCli::$printed[0]);
        self::assertStringContainsString('Error: this site allows no changes', WpCli::$printed[2]);
    }

    public function testTheDropInOfAnotherIsAnError(): void
    {
        file_put_contents($this->target, '<?php');
        $this->command()->enable();
        $this->command()->disable();
        $this->command()->status();
        self::assertStringStartsWith('Error: ', WpCli::$printed[0]);
        self::assertStringStartsWith('Error: ', WpCli::$printed[1]);
        self::assertStringContainsString('foreign', WpCli::$printed[2]);
    }

    public function testFlushIsOfThisSiteUnlessTheNetworkIsMeant(): void
    {
        $GLOBALS['sites'] = [2, 3];
        foreach ([2, 3] as $site) {
            $this->request($site)->set('key', 'value');
        }
        $this->command()->flush();
        self::assertFalse($this->request(2)->get('key'));
        self::assertSame('value', $this->request(3)->get('key'));
        $this->command()->flush([], ['network' => true]);
        self::assertFalse($this->request(3)->get('key'));
        self::assertSame(['Success: The cache is empty.', 'Success: The cache is empty.'], WpCli::$printed);
    }

    public function testFlushEmptiesTheCopyOfTheRunningProcessToo(): void
    {
        $cache = $GLOBALS['wp_object_cache'] = $this->request();
        $cache->set('key', 'value');
        $this->command()->flush();
        self::assertFalse($cache->get('key'));
    }

    public function testAFlushThatTheDaemonDoesNotLearnOfIsAnErrorAndIsMadeUpFor(): void
    {
        $this->request()->set('key', 'value');
        $socket = $this->socket;
        $this->socket = "$this->stateDirectory/nobody.sock";
        $this->logged(fn () => $this->command()->flush());
        self::assertStringStartsWith('Error: ', WpCli::$printed[0]);
        $this->socket = $socket;
        self::assertFalse($this->request()->get('key'));
    }

    private function command(): CoatcheckCommand
    {
        $settings = new Settings($this->socket, $this->prefix, [$this->stateDirectory], 'secret');
        $dropIn = new DropIn(__DIR__ . '/../dropin/object-cache.php', $this->target);
        return new CoatcheckCommand(new Installation($settings, $dropIn));
    }
}
