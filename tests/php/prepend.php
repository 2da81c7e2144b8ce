<?php

// Runs before each script: takes over the settings in the query, as in ?ini[session.use_strict_mode]=1, and puts
// PHP's SessionHandler between PHP and the extension when it says proxy=1.

declare(strict_types=1);

foreach ($_GET['ini'] ?? [] as $name => $value) {
    if (ini_set($name, $value) === false) {
        throw new RuntimeException("the setting $name cannot be made here");
    }
}

if (isset($_GET['proxy'])) {
    session_set_save_handler(new SessionHandler());
}

/** Prints facts for the test, as one line of JSON. */
function answer(array $facts): void
{
    echo json_encode($facts, JSON_THROW_ON_ERROR), "\n";
}

/** Stays for hold_ms milliseconds of the query, and until the file that its `until` names is there. */
function stay(): void
{
    usleep((int) ($_GET['hold_ms'] ?? 0) * 1000);
    while (isset($_GET['until']) && !file_exists($_GET['until'])) {
        usleep(1000);
    }
}

/** Adds one to the session's counter. */
function count_visit(): int
{
    return $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
}
