<?php

// Tells what a session holds.

declare(strict_types=1);

$started = session_start(['read_and_close' => true]);
answer(['data' => $started ? $_SESSION : null, 'started' => $started]);
