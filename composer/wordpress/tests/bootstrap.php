<?php

declare(strict_types=1);

require __DIR__ . '/../../../tests/packages/bootstrap.php';
require __DIR__ . '/Support/functions.php';
