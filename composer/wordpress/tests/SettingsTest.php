<?php

declare(strict_types=1);

namespace Coatcheck\WordPress\Tests;

use Coatcheck\Tests\Packages\Daemon;
use Coatcheck\WordPress\Settings;
use PHPUnit\Framework\TestCase;

final class SettingsTest extends TestCase
{
    public function testADsnMayHaveOptionsOfItsOwn(): void
    {
        foreach (['', 'unix://', 'coatcheck://'] as $scheme) {
            $settings = new Settings($scheme . Daemon::sharedSocket() . '?timeout=7', 'prefix', []);
            $settings->client()->ping();
            self::assertSame(Daemon::sharedSocket(), $settings->client()->transport->socket());
        }
    }

    public function testTheTimeLimitOfTheDsnComesFirst(): void
    {
        $this->expectException(\Coatcheck\Client\Exception\InvalidArgumentException::class);
        (new Settings(Daemon::sharedSocket() . '?timeout=-1', 'prefix', []))->client();
    }

    public function testInstallationsWithOtherDatabasesHaveOtherPrefixes(): void
    {
        $GLOBALS['table_prefix'] = 'one_';
        $one = Settings::ofThisSite()->prefix;
        self::assertSame($one, Settings::ofThisSite()->prefix);
        $GLOBALS['table_prefix'] = 'two_';
        self::assertNotSame($one, Settings::ofThisSite()->prefix);
        unset($GLOBALS['table_prefix']);
    }
}
