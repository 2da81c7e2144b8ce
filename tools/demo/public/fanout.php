<?php

/**
 * Fires 20 parallel requests at one session and leaves the outcome in the visitor's session
 * for index.php. With `Accept: application/json` the outcome is the answer.
 */

declare(strict_types=1);

namespace Coatcheck\Demo;

require __DIR__ . '/../src/session.php';
require __DIR__ . '/../src/FanOut.php';

const REQUESTS = 20;

if ($_SERVER['REQUEST_METHOD'] !== 'POST') {
    header('Allow: POST');
    http_response_code(405);
    exit("the fan-out is started with POST\n");
}

/**
 * Gives the counter its starting value and lets go of the session, so that the requests can have it.
 *
 * @param 'on'|'off' $locking
 * @return array<string, string> the session's cookie
 */
function resetCounter(string $locking): array
{
    if (!startSession($locking)) {
        http_response_code(503);
        exit("the session could not be started\n");
    }
    $_SESSION['hits'] = 0;
    $cookie = [session_name() => session_id()];
    session_write_close();

    return $cookie;
}

/** @param 'on'|'off' $locking */
function readCounter(string $locking): int
{
    startSession($locking);
    $hits = $_SESSION['hits'] ?? 0;
    session_abort();

    return $hits;
}

$locking = lockingFromRequest();
$front = getenv('COATCHECK_DEMO_FRONT') ?: '127.0.0.1:8131';

$cookie = resetCounter($locking);
$answers = (new FanOut($front))->get("/hit.php?locking=$locking", REQUESTS, $cookie);
$outcome = [
    'locking' => $locking,
    'sent' => REQUESTS,
    'ok' => count(array_filter($answers, static fn (array $answer): bool => $answer['status'] === 200)),
    'kept' => readCounter($locking),
    'answers' => $answers,
];

if (str_contains($_SERVER['HTTP_ACCEPT'] ?? '', 'application/json')) {
    header('Content-Type: application/json');
    header('Cache-Control: no-store');
    echo json_encode($outcome, JSON_THROW_ON_ERROR);
    exit;
}

startSession('on');
$_SESSION['outcomes'][$locking] = $outcome;
session_write_close();
header('Location: /#' . $locking, true, 303);
