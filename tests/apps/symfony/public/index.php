<?php

declare(strict_types=1);

use App\Shop;
use Symfony\Component\HttpFoundation\Request;

require dirname(__DIR__) . '/autoload.php';
require dirname(__DIR__) . '/Shop.php';

$kernel = new Shop('prod', false);
$request = Request::createFromGlobals();
$response = $kernel->handle($request);
$response->send();
$kernel->terminate($request, $response);
