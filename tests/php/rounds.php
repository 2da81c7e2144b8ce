<?php

// Goes through the whole life of a session many times in one request.

declare(strict_types=1);

$rounds = (int) $_GET['rounds'];
for ($i = 1; $i <= $rounds; $i++) {
    session_start();
    session_reset();
    session_abort();
    session_start(['read_and_close' => true]);
    session_start();
    count_visit();
    session_gc();
    session_regenerate_id(true);
    session_write_close();
    session_start();
    session_regenerate_id(false);
    session_write_close();
    session_start();
    $_SESSION['round'] = $i;
    session_write_close();
}
answer(['rounds' => $_SESSION['round'], 'n' => $_SESSION['n'], 'pid' => getmypid()]);
