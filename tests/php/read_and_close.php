<?php

// Reads a session twice without keeping it, then starts it to write.

declare(strict_types=1);

$reads = [];
for ($i = 0; $i < 2; $i++) {
    session_start(['read_and_close' => true]);
    $reads[] = $_SESSION;
}
$started = session_start();
$n = count_visit();
answer(['reads' => $reads, 'started' => $started, 'n' => $n]);
