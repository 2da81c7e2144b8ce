<?php

declare(strict_types=1);

require __DIR__ . '/../../../tests/packages/bootstrap.php';
require_once 'Illuminate/autoload.php';
