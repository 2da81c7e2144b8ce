<?php

declare(strict_types=1);

require __DIR__ . '/support.php';

session_start();
var_dump(session_destroy());
