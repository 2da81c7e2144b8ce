<?php

declare(strict_types=1);

require __DIR__ . '/../../../tests/packages/bootstrap.php';
require_once getenv('COATCHECK_TEST_AUTOLOAD') ?: 'Illuminate/autoload.php';
