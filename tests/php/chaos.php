<?php

// One visit among many while processes are killed and stopped. It tells at each stage where it is, in a file named after
// its process, so that the test can aim.

declare(strict_types=1);

function stage(string $stage): void
{
    file_put_contents($_GET['stages'] . '/' . getmypid(), $stage);
}

/** Counts, and tells the number only when it is stored. */
function count_and_close(): void
{
    stage('asking');
    $started = session_start();
    stage('inside');
    $n = $started ? count_visit() : null;
    stay();
    stage('storing');
    $closed = session_write_close();
    stage('idle');
    answer(['n' => $n, 'started' => $started, 'closed' => $closed]);
}

function count_and_abort(): void
{
    stage('asking');
    $started = session_start();
    stage('inside');
    count_visit();
    stay();
    answer(['started' => $started, 'closed' => session_abort()]);
    stage('idle');
}

/** Leaves a bound lock and an unchanged session to the end of the request. */
function exit_without_a_close(): never
{
    stage('asking');
    coatcheck_call('lock.acquire', [
        'name' => 'forgotten', 'token' => bin2hex(random_bytes(16)), 'bound' => true, 'wait_ms' => 25_000,
    ], 30_000);
    $started = session_start();
    stage('inside');
    stay();
    answer(['started' => $started, 'closed' => true]);
    stage('storing');
    exit;
}

match ($_GET['do']) {
    'count' => count_and_close(),
    'abort' => count_and_abort(),
    'exit' => exit_without_a_close(),
};
