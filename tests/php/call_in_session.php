<?php

// Holds a session, and asks the daemon for something else before it ends.

declare(strict_types=1);

session_start();
$n = count_visit();
stay();
try {
    $told = coatcheck_kv_get('something');
} catch (Coatcheck\Exception $e) {
    $told = $e::class;
}
$closed = session_write_close();
answer(['n' => $n, 'told' => $told]);
