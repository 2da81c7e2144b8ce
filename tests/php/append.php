<?php

// Adds the mark of this request to the session, and answers when it is stored.

declare(strict_types=1);

$started = session_start();
if ($started) {
    $_SESSION['marks'][] = $_GET['mark'];
    usleep(random_int(0, 3000));
}
$closed = session_write_close();
answer(['started' => $started, 'closed' => $closed]);
