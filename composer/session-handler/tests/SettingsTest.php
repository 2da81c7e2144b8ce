<?php

declare(strict_types=1);

namespace Coatcheck\Session\Tests;

use Coatcheck\Client\Exception\InvalidArgumentException;
use Coatcheck\Session\Handler;
use Coatcheck\Session\Settings;
use PHPUnit\Framework\Attributes\DataProvider;
use PHPUnit\Framework\TestCase;

/**
 * The settings have the names, defaults and values of the extension's.
 */
final class SettingsTest extends TestCase
{
    public function testDefaultsAreThoseOfTheExtension(): void
    {
        $settings = new Settings();
        self::assertSame(
            ['/run/coatcheck/coatcheck.sock', '', true, 30.0, 30.0, 'unlocked', 1.0, 5.0],
            [
                $settings->socket, $settings->prefix, $settings->sessionLocking, $settings->lockLeaseSeconds,
                $settings->lockWaitSeconds, $settings->lockFailure, $settings->connection['connect_timeout'],
                $settings->connection['timeout'],
            ],
        );
    }

    /**
     * @dataProvider goodValues
     */
    #[DataProvider('goodValues')]
    public function testAGoodValueIsTaken(string $name, mixed $value, string $property, mixed $expected): void
    {
        self::assertSame($expected, (new Settings([$name => $value]))->$property);
    }

    /** @return list<array{string, mixed, string, mixed}> */
    public static function goodValues(): array
    {
        return [
            ['lock_wait', '0', 'lockWaitSeconds', 0.0],
            ['lock_wait', 0.25, 'lockWaitSeconds', 0.25],
            ['lock_lease', '0.5', 'lockLeaseSeconds', 0.5],
            ['lock_failure', 'READONLY', 'lockFailure', 'readonly'],
            ['session_locking', 'Off', 'sessionLocking', false],
            ['session_locking', '0', 'sessionLocking', false],
            ['session_locking', true, 'sessionLocking', true],
            ['prefix', 'shop', 'prefix', 'shop'],
            ['socket', 'unix:///run/other.sock', 'socket', '/run/other.sock'],
        ];
    }

    /**
     * @dataProvider badValues
     */
    #[DataProvider('badValues')]
    public function testABadValueIsRefusedByItsName(string $name, mixed $value): void
    {
        $this->expectException(InvalidArgumentException::class);
        $this->expectExceptionMessage($name);
        new Handler([$name => $value]);
    }

    /** @return list<array{string, mixed}> */
    public static function badValues(): array
    {
        return [
            ['lock_wait', '-1'], ['lock_wait', 'soon'], ['lock_wait', 1e9], ['lock_lease', '0'], ['lock_lease', ''],
            ['lock_lease', 0.0001], ['timeout_ms', '0'], ['timeout_ms', '0.5'], ['timeout_ms', 'fast'],
            ['connect_timeout_ms', -3], ['lock_failure', 'panic'], ['socket', 'relative.sock'],
            ['socket', '/' . str_repeat('x', 107)], ['prefix', str_repeat('p', 256)], ['session_locking', 'enabled'],
            ['session_locking', ''], ['lock_wiat', 5], ['transport', 'pigeon'], ['persistent', 'maybe'],
        ];
    }

    public function testTheSavePathGoesBeforeTheOptions(): void
    {
        $given = ['socket' => '/a.sock', 'prefix' => 'given', 'lock_wait' => 1];
        $settings = Settings::withSavePath($given, 'unix:///b.sock?prefix=a%26b&lock_failure=fail');
        self::assertSame(
            ['/b.sock', 'a&b', 'fail', 1.0],
            [$settings->socket, $settings->prefix, $settings->lockFailure, $settings->lockWaitSeconds],
        );
        self::assertSame('/a.sock', Settings::withSavePath($given, '')->socket);
        self::assertSame('/a.sock', Settings::withSavePath($given, '/tmp')->socket, 'a directory counts as empty');
        self::assertSame('/a.sock', Settings::withSavePath($given, 'unix://?lock_wait=2')->socket);
        self::assertSame('/b.sock', Settings::withSavePath($given, '/b.sock')->socket);
        $this->expectExceptionMessage('the option prefix needs a value');
        Settings::withSavePath($given, 'unix:///b.sock?prefix');
    }
}
