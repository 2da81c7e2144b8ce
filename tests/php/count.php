<?php

// Counts a visit, stays a while with the session open, and tells the number only when it is stored.

declare(strict_types=1);

$started = session_start();
$n = $started ? count_visit() : null;
stay();
$closed = session_write_close();
answer(['n' => $n, 'started' => $started, 'closed' => $closed, 'pid' => getmypid(), 'id' => session_id()]);
