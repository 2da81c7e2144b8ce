<?php

/**
 * In place of vendor/autoload.php: the packages of this checkout, and the Laravel that Debian installed or that
 * COATCHECK_TEST_AUTOLOAD names.
 */

declare(strict_types=1);

require dirname(__DIR__, 2) . '/packages/bootstrap.php';
require_once getenv('COATCHECK_TEST_AUTOLOAD') ?: 'Illuminate/autoload.php';
spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Shop\\')) {
        require __DIR__ . '/app/' . substr($class, 5) . '.php';
    }
});
