<?php

declare(strict_types=1);

return [

    // The daemon's socket, as a path or coatcheck:///path?timeout=5. A cache store in config/cache.php may have a `dsn`
    // of its own.
    'dsn' => env('COATCHECK_DSN', '/run/coatcheck/coatcheck.sock'),

    // More options of Coatcheck\Client\Client::connect(), such as ['timeout' => 2.0] in seconds.
    'options' => [],

    // SESSION_DRIVER=coatcheck. Its lifetime is that of config/session.php.
    'session' => [

        // A keyspace of its own: applications with different prefixes never see each other's sessions.
        'prefix' => env('COATCHECK_SESSION_PREFIX', 'laravel'),

        // One request of a session at a time, from its start to its save.
        'locking' => true,

        // Seconds that the lock lasts once the daemon no longer sees the process. It renews the lock while the process
        // lives, for lock.max_hold (10 minutes) at most, and frees it at once when the process dies.
        'lock_lease' => 30,

        // Seconds that a request waits, in the daemon, for the one before it.
        'lock_wait' => 30,

        // What happens after that: "unlocked" goes on without the lock and logs a warning, "readonly" goes on and
        // does not save, "fail" throws Coatcheck\Client\Exception\BusyException.
        'lock_failure' => 'unlocked',

        // Requests that only read their session, by path (as of Request::is()): they take no lock, wait for nobody and
        // save nothing. A single route says it with ->readOnlySession().
        'read_only' => [],
    ],
];
