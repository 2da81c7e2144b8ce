<?php

// Tries to start a session and tells how that went, whatever comes out.

declare(strict_types=1);

if (isset($_GET['id'])) {
    session_id($_GET['id']);
}
$started = session_start();
answer(['started' => $started, 'id' => session_id(), 'data' => $_SESSION ?? null, 'pid' => getmypid()]);
