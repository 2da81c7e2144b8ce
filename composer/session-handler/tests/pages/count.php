<?php

declare(strict_types=1);

require __DIR__ . '/support.php';

session_start();
$n = $_SESSION['n'] ?? 0;
usleep(5_000); // so that others come in between, if they can
$_SESSION['n'] = $n + 1;
