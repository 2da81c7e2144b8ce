<?php

/**
 * Contends with other processes for one session: asks for it, holds it, gives it back, again and again.
 *
 *     php handover.php SECONDS ID HOLD_US
 *
 * The holder stores the time (CLOCK_MONOTONIC, which all processes share) just before session_write_close(), in the
 * session itself, so whoever is granted the session next knows when it was released. It counts the time to the
 * return of its own session_start() as a hand-over if it had asked before the release. That includes the
 * commit's way to the server and the grant's way back.
 *
 * Prints JSON: the hand-overs and all waits in nanoseconds, how often it added 1 to the session's `n`, and how
 * often session_start() failed.
 */

declare(strict_types=1);

[, $seconds, $id, $holdMicroseconds] = $argv;
$handovers = [];
$waits = [];
$added = 0;
$failed = 0;
$end = hrtime(true) + (int) ((float) $seconds * 1e9);

while (($asked = hrtime(true)) < $end) {
    session_id($id);
    if (!session_start()) {
        $failed++;
        continue;
    }
    $granted = hrtime(true);
    $waits[] = $granted - $asked;
    if (($_SESSION['released'] ?? 0) > $asked) {
        $handovers[] = $granted - $_SESSION['released'];
    }
    $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
    $added++;
    usleep((int) $holdMicroseconds);
    $_SESSION['released'] = hrtime(true);
    session_write_close();
}

session_id($id);
session_start();
echo json_encode([
    'handovers_ns' => $handovers, 'waits_ns' => $waits, 'added' => $added, 'failed' => $failed, 'n' => $_SESSION['n'] ?? 0,
], JSON_THROW_ON_ERROR);
session_abort();
