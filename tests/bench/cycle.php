<?php

/**
 * Runs locked cycles, one after the other in this process: session_start(), a change of 4 KiB, session_write_close().
 *
 *     php cycle.php SECONDS PREFIX
 *
 * PREFIX begins the ids of the sessions it works on. Prints JSON: each cycle's time in nanoseconds, and how many
 * cycles did not see what the last one on their session wrote.
 */

declare(strict_types=1);

const SESSIONS = 64;
const WARM_UP = 2 * SESSIONS;

/** @return list<string> blobs of 4 KiB that do not compress */
function blobs(): array
{
    $blobs = [];
    for ($i = 0; $i < 16; $i++) {
        $blobs[] = base64_encode(random_bytes(3072));
    }
    return $blobs;
}

[, $seconds, $prefix] = $argv;
$blobs = blobs();
$times = [];
$wrong = 0;
$end = hrtime(true) + (int) ((float) $seconds * 1e9);

for ($i = 0; ($began = hrtime(true)) < $end || $i <= WARM_UP; $i++) {
    session_id($prefix . $i % SESSIONS);
    $seen = session_start() ? $_SESSION['n'] ?? 0 : -1;
    $_SESSION['n'] = $seen + 1;
    $_SESSION['blob'] = $blobs[$i % count($blobs)];
    session_write_close();
    if ($i >= WARM_UP) {
        $times[] = hrtime(true) - $began;
    }
    $wrong += $seen === intdiv($i, SESSIONS) ? 0 : 1;
}

echo json_encode(['times_ns' => $times, 'wrong' => $wrong], JSON_THROW_ON_ERROR);
