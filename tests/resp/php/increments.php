<?php

// Counts in one session, so often as the arguments say: save path, session id, times.

declare(strict_types=1);

[, $path, $id, $times] = $argv;
ini_set('session.save_handler', 'redis');
ini_set('session.save_path', $path);
ini_set('session.use_cookies', '0');
ini_set('session.cache_limiter', '');
ini_set('redis.session.locking_enabled', '1');
ini_set('redis.session.lock_retries', '-1');
ini_set('redis.session.lock_wait_time', '1000');

for ($i = 0; $i < (int) $times; $i++) {
    session_id($id);
    if (!session_start()) {
        fwrite(STDERR, "no session\n");
        exit(1);
    }
    $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
    $n = $_SESSION['n'];
    if (!session_write_close()) {
        fwrite(STDERR, "not written\n");
        exit(1);
    }
}
echo $n;
