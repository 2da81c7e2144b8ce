<?php

/** A trivial session page: one more visit. ?hold_us=10000 keeps the session for 10 ms. Answers with the number of visits. */

declare(strict_types=1);

if (!session_start()) {
    http_response_code(500);
    exit;
}
$n = $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
if (isset($_GET['hold_us'])) {
    usleep((int) $_GET['hold_us']);
}
if (!session_write_close()) {
    http_response_code(500);
    exit;
}
echo $n;
