<?php

/**
 * What every page begins with: the handler is registered as the test wants it.
 */

declare(strict_types=1);

require __DIR__ . '/../bootstrap.php';

ob_start();
if (ini_get('session.save_handler') !== 'coatcheck') {
    Coatcheck\Session\register(json_decode((string) getenv('OPTIONS'), true));
}

/** Prints at once, so that a test may wait for it. */
function say(string $text): void
{
    echo $text, "\n";
    while (ob_get_level() > 0) {
        ob_end_flush();
    }
    flush();
}

/** Goes on when the test opens the gate. */
function await_gate(): void
{
    $until = microtime(true) + 20;
    while (!file_exists($_GET['gate']) && microtime(true) < $until) {
        usleep(2_000);
        clearstatcache();
    }
}
