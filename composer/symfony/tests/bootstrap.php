<?php

/**
 * Loads this package, and Symfony from where Debian installed it; or, when COATCHECK_TEST_AUTOLOAD names another
 * autoload.php, the Symfony of that one.
 */

declare(strict_types=1);

require __DIR__ . '/../../../tests/packages/bootstrap.php';
require_once 'Psr/SimpleCache/autoload.php';
if (is_string($symfony = getenv('COATCHECK_TEST_AUTOLOAD')) && $symfony !== '') {
    require_once $symfony;
} else {
    foreach (['Cache', 'Lock', 'HttpFoundation', 'HttpKernel', 'DependencyInjection', 'Console'] as $component) {
        require_once "Symfony/Component/$component/autoload.php";
    }
    require_once 'Symfony/Bundle/FrameworkBundle/autoload.php';
    // What Composer brings along and Debian's autoload.php files do not, for Symfony 6.4 and later: the runtime API
    // that the container asks, and the class without a proper name that holds an item with its metadata.
    foreach (['Composer/InstalledVersions.php', 'Symfony/Component/Cache/Traits/ValueWrapper.php'] as $file) {
        if (is_string($path = stream_resolve_include_path($file))) {
            require_once $path;
        }
    }
}
require_once 'Cache/IntegrationTests/autoload.php';
