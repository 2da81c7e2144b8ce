<?php

/**
 * Shows why a lock must be released by its token: A's lease ends while it sleeps, B takes the
 * lock, then A releases. With `del` it throws B's lock away, with `del_if_eq` it cannot.
 *
 *     curl -s 'localhost:8131/lock.php?release=del'
 *     curl -s 'localhost:8131/lock.php?release=del_if_eq'
 */

declare(strict_types=1);

header('Content-Type: text/plain; charset=utf-8');
header('Cache-Control: no-store');

$release = $_GET['release'] ?? 'del_if_eq';
if (!in_array($release, ['del', 'del_if_eq'], true)) {
    http_response_code(400);
    exit("release is either del or del_if_eq\n");
}

function show(string $what, mixed $answer): void
{
    printf("%-24s %s\n", $what . ':', var_export($answer, true));
}

// Every visit has a lock of its own, so that visitors do not disturb each other.
$lock = 'demo:lock:' . bin2hex(random_bytes(8));

show('A acquires (1s TTL)', ephpm_kv_setnx($lock, 'A', 1));
usleep(1_200_000);
show('B acquires (30s TTL)', ephpm_kv_setnx($lock, 'B', 30));
show(
    "A releases with $release",
    $release === 'del' ? ephpm_kv_del($lock) : ephpm_kv_del_if_eq($lock, 'A')
);
show('C tries to acquire', ephpm_kv_setnx($lock, 'c', 30));
show('lock holder now', ephpm_kv_get($lock));

ephpm_kv_del($lock);
