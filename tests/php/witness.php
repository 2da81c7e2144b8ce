<?php

// Proves by the file system that nobody else is inside the session at the same time.

declare(strict_types=1);

session_start();
$witness = @fopen($_GET['witness'], 'x');
usleep(random_int(1000, 5000));
if ($witness) {
    unlink($_GET['witness']);
}
$n = count_visit();
session_write_close();
answer(['alone' => $witness !== false, 'n' => $n]);
