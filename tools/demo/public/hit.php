<?php

/**
 * One of the 20 parallel requests: reads the counter, works for 50 ms, writes the counter.
 * Without a lock this is the classic lost update.
 */

declare(strict_types=1);

namespace Coatcheck\Demo;

require __DIR__ . '/../src/session.php';

const WORK_US = 50_000;

header('Content-Type: application/json');
header('Cache-Control: no-store');

if (!startSession(lockingFromRequest())) {
    http_response_code(503);
    exit(json_encode(['error' => 'the session could not be started'], JSON_THROW_ON_ERROR));
}
$session = coatcheck_session_info() ?? [];

$hits = $_SESSION['hits'] ?? 0;
usleep(WORK_US);
$_SESSION['hits'] = $hits + 1;
$written = session_write_close();

echo json_encode([
    'hits' => $hits + 1,
    'written' => $written,
    'fence' => $session['fence'] ?? null,
    'waited_ms' => $session['waited_ms'] ?? 0,
    'work_ms' => intdiv(WORK_US, 1000),
], JSON_THROW_ON_ERROR);
