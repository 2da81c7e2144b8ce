<?php

// Changes the session and leaves it with session_abort().

declare(strict_types=1);

session_start();
count_visit();
answer(['aborted' => session_abort()]);
