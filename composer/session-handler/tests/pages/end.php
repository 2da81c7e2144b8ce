<?php

declare(strict_types=1);

require __DIR__ . '/support.php';

session_start();
$_SESSION['ended'] = $_GET['how'];
match ($_GET['how']) {
    'exit' => exit('left'),
    'exception' => throw new RuntimeException('thrown'),
    'memory' => [ini_set('memory_limit', '8M'), str_repeat('x', 100 << 20)],
    'nothing' => null,
};
