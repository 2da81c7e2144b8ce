<?php

/**
 * Loads the classes of these packages without Composer: PSR-4 over the directories of composer.json.
 */

declare(strict_types=1);

foreach ([dirname(__DIR__) . '/composer.json'] as $file) {
    $autoload = json_decode((string) file_get_contents($file), true, 512, JSON_THROW_ON_ERROR);
    foreach (['autoload', 'autoload-dev'] as $section) {
        foreach ($autoload[$section]['psr-4'] ?? [] as $prefix => $directory) {
            spl_autoload_register(static function (string $class) use ($prefix, $directory, $file): void {
                $path = dirname($file) . '/' . $directory . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
                if (str_starts_with($class, $prefix) && is_file($path)) {
                    require $path;
                }
            });
        }
    }
}
