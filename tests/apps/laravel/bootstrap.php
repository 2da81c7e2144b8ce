<?php

declare(strict_types=1);

use Illuminate\Contracts\Console\Kernel as ConsoleKernel;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Http\Kernel as HttpKernel;
use Illuminate\Foundation\Application;
use Shop\Failures;
use Shop\Kernel;
use Shop\Pages;

require __DIR__ . '/autoload.php';

foreach (['PACKAGES', 'SERVICES'] as $what) {
    $_ENV["APP_{$what}_CACHE"] = __DIR__ . '/var/' . strtolower($what) . '.php'; // the only place that may be written
}
$app = new Application(__DIR__);
$app->useStoragePath(__DIR__ . '/var');
$app->singleton(HttpKernel::class, Kernel::class);
$app->singleton(ConsoleKernel::class, \Illuminate\Foundation\Console\Kernel::class);
$app->singleton(ExceptionHandler::class, Failures::class);
$app->booted(static fn (Application $app) => Pages::register($app->make('router')));

return $app;
