<?php

// Changes the session and takes the changes back with session_reset().

declare(strict_types=1);

session_start();
$n = count_visit();
$_SESSION['draft'] = 'not to be kept';
$began = hrtime(true);
$reset = session_reset();
$took = (hrtime(true) - $began) / 1e6;
answer(['reset' => $reset, 'data' => $_SESSION, 'took_ms' => $took, 'before' => $n]);
