<?php

/**
 * Loads this package's classes on demand, and those of coatcheck/client from where they are: the site's own Composer
 * autoloader, a vendor directory in here, or a copy of the client in here or beside (a checkout).
 *
 * @return bool are both there?
 */

declare(strict_types=1);

return (static function (): bool {
    $load = static function (string $prefix, string $directory): void {
        spl_autoload_register(static function (string $class) use ($prefix, $directory): void {
            $path = $directory . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
            if (str_starts_with($class, $prefix) && is_file($path)) {
                require $path;
            }
        });
    };
    if (!class_exists(Coatcheck\WordPress\ObjectCache::class)) {
        $load('Coatcheck\\WordPress\\', __DIR__ . '/src/');
    }
    if (!class_exists(Coatcheck\Client\Client::class) && is_file(__DIR__ . '/vendor/autoload.php')) {
        require_once __DIR__ . '/vendor/autoload.php';
    }
    foreach ([__DIR__ . '/client', dirname(__DIR__) . '/client'] as $client) {
        if (!class_exists(Coatcheck\Client\Client::class) && is_file("$client/src/Client.php")) {
            $load('Coatcheck\\Client\\', "$client/src/");
            $load('Coatcheck\\', "$client/polyfill/");
        }
    }
    return class_exists(Coatcheck\Client\Client::class);
})();
