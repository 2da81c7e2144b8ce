<?php

// Sends its answer and goes on with the session open.

declare(strict_types=1);

session_start();
count_visit();
answer(['pid' => getmypid()]);
fastcgi_finish_request();
stay();
$_SESSION['late'] = true;
