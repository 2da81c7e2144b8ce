<?php

/**
 * In place of vendor/autoload.php: the packages of this checkout, and the Symfony that Debian installed or that
 * COATCHECK_TEST_AUTOLOAD names.
 */

declare(strict_types=1);

require dirname(__DIR__, 2) . '/packages/bootstrap.php';
if (is_string($symfony = getenv('COATCHECK_TEST_AUTOLOAD')) && $symfony !== '') {
    require_once $symfony;
} else {
    foreach (['Cache', 'Lock', 'HttpFoundation', 'HttpKernel', 'DependencyInjection'] as $component) {
        require_once "Symfony/Component/$component/autoload.php";
    }
    require_once 'Symfony/Bundle/FrameworkBundle/autoload.php';
}
