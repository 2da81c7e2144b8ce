<?php

// Receives a file whose progress PHP kept in the session while it arrived.

declare(strict_types=1);

session_start();
$progress = $_SESSION['upload_progress_e2e'] ?? null;
answer([
    'size' => $_FILES['file']['size'],
    'done' => $progress['done'] ?? null,
    'processed' => $progress['bytes_processed'] ?? null,
    'n' => count_visit(),
]);
