<?php

declare(strict_types=1);

namespace Shop;

use Illuminate\Foundation\Http\Kernel as HttpKernel;
use Illuminate\Session\Middleware\StartSession;

/**
 * Requests, each with its session.
 */
final class Kernel extends HttpKernel
{
    protected $middlewareGroups = ['web' => [StartSession::class]];
}
