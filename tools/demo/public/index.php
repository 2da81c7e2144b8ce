<?php

/** The demo's page: the visitor's session, and what 20 parallel requests do to it. */

declare(strict_types=1);

namespace Coatcheck\Demo;

require __DIR__ . '/../src/session.php';
require __DIR__ . '/../src/view.php';

header("Content-Security-Policy: default-src 'self'; frame-ancestors 'none'");
header('X-Content-Type-Options: nosniff');
header('Referrer-Policy: same-origin');

if (!startSession('on')) {
    http_response_code(503);
    exit("The session could not be started: is the daemon running? The log of php-fpm says more.\n");
}
$_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
$visits = $_SESSION['visits'];
$outcomes = $_SESSION['outcomes'] ?? [];
$lock = coatcheck_session_info() ?? [];
$id = session_id();
// What follows only prints: the next request of this visitor need not wait for it.
session_write_close();
?>
<!DOCTYPE html>
<html lang="en">
<head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>coatcheck demo</title>
    <link rel="stylesheet" href="/style.css">
    <link rel="icon" href="/icon.svg" type="image/svg+xml">
    <script src="/demo.js" defer></script>
</head>
<body>
<header>
    <h1><img src="/icon.svg" alt="" width="40" height="40">coatcheck</h1>
    <p>Hand in a coat, get a token, and only that token gets the coat back. This page runs on php&#8209;fpm;
        its session is kept and locked by the daemon next to it.</p>
</header>
<main>
    <section aria-labelledby="session">
        <h2 id="session">Your session</h2>
        <dl class="facts">
            <?= fact('Visits', (string) $visits, 'counted in $_SESSION') ?>
            <?= fact('Session id', substr($id, 0, 6) . '…', 'the first 6 characters') ?>
            <?= fact('Lock token', ($lock['token_prefix'] ?? '') . '…', 'new for each request') ?>
            <?= fact('Fence', number_format($lock['fence'] ?? 0, 0, '', ' '), 'grows with every grant') ?>
            <?= fact('Wait', ($lock['waited_ms'] ?? 0) . ' ms', 'for the lock, this request') ?>
        </dl>
    </section>

    <section aria-labelledby="race">
        <h2 id="race">Twenty requests at once</h2>
        <p>Each one reads a counter from one session, works for 50 ms and writes it back, increased by one.
            What should be left is 20.</p>
        <div class="cards" aria-live="polite">
            <?= card('on', 'With the session lock', $outcomes['on'] ?? null) ?>
            <?= card('off', 'Without it', $outcomes['off'] ?? null) ?>
        </div>
    </section>

    <section aria-labelledby="release">
        <h2 id="release">A lock released too late</h2>
        <p>A takes a lock for 1 s and sleeps for 1.2 s. B takes it meanwhile.
            What happens when A comes to release it?</p>
        <ul class="links">
            <li><a href="/lock.php?release=del">released by <code>del</code></a>: B’s lock is gone and C walks in</li>
            <li><a href="/lock.php?release=del_if_eq">released by <code>del_if_eq</code></a>: only its own token
                releases a lock</li>
        </ul>
    </section>
</main>
</body>
</html>
