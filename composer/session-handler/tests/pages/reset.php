<?php

declare(strict_types=1);

require __DIR__ . '/support.php';

$began = microtime(true);
session_start();
$_SESSION['n'] = 1;
session_write_close();
session_start();
for ($i = 0; $i < 50; $i++) {
    $_SESSION['n'] = 2;
    session_reset();
}
var_dump($_SESSION['n'], microtime(true) - $began < 10);
session_abort();
session_start(['read_and_close' => true]);
session_start(['read_and_close' => true]);
var_dump(session_start());
