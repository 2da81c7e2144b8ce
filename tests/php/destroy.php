<?php

// Destroys the session, as a log-out does.

declare(strict_types=1);

$started = session_start();
$destroyed = session_destroy();
answer(['started' => $started, 'destroyed' => $destroyed]);
