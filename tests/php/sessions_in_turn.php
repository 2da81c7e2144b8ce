<?php

// Two sessions one after the other in one request, the second one left open.

declare(strict_types=1);

session_id($_GET['first']);
session_start();
count_visit();
session_write_close();
session_id($_GET['second']);
session_start();
count_visit();
answer(['pid' => getmypid()]);
