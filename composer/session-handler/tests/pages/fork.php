<?php

declare(strict_types=1);

require __DIR__ . '/support.php';

session_start();
$_SESSION['by'] = 'parent';
if (pcntl_fork() === 0) {
    $_SESSION['by'] = 'child';
    session_write_close();
    exit;
}
pcntl_wait($status);
session_write_close();
echo "parent ended\n";
