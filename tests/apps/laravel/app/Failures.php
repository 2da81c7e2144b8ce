<?php

declare(strict_types=1);

namespace Shop;

use Illuminate\Foundation\Exceptions\Handler;
use Illuminate\Http\Response;
use Symfony\Component\HttpKernel\Exception\HttpExceptionInterface;

/**
 * Failures as plain text.
 */
final class Failures extends Handler
{
    public function render($request, \Throwable $e)
    {
        return new Response($e->getMessage(), $e instanceof HttpExceptionInterface ? $e->getStatusCode() : 500);
    }
}
