<?php

// Starts a session and changes nothing.

declare(strict_types=1);

$started = session_start();
stay();
answer(['started' => $started, 'data' => $_SESSION, 'id' => session_id(), 'pid' => getmypid()]);
