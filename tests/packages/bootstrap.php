<?php

/**
 * Loads the packages under composer/ and their tests as Composer would, without Composer: PSR-4 and the files of each
 * composer.json. A package's own tests/bootstrap.php begins with this file and then loads what Debian installed of the
 * framework.
 */

declare(strict_types=1);

(static function (): void {
    $load = static function (string $prefix, string $directory): void {
        spl_autoload_register(static function (string $class) use ($prefix, $directory): void {
            if (!str_starts_with($class, $prefix)) {
                return;
            }
            $path = $directory . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
            if (is_file($path)) {
                require $path;
            }
        });
    };
    $load('Coatcheck\\Tests\\Packages\\', __DIR__ . '/src/');
    foreach (glob(dirname(__DIR__, 2) . '/composer/*/composer.json') as $file) {
        $package = json_decode(file_get_contents($file), true, 64, JSON_THROW_ON_ERROR);
        foreach ([$package['autoload'] ?? [], $package['autoload-dev'] ?? []] as $autoload) {
            foreach ($autoload['psr-4'] ?? [] as $prefix => $directory) {
                $load($prefix, dirname($file) . '/' . rtrim($directory, '/') . '/');
            }
            foreach ($autoload['files'] ?? [] as $name) {
                require_once dirname($file) . '/' . $name;
            }
        }
    }
})();
