<?php

// Changes the session and then ends in the way that the query names.

declare(strict_types=1);

session_start();
count_visit();
answer(['pid' => getmypid()]);

match ($_GET['by']) {
    'exit' => exit,
    'die' => die('good bye'),
    'an uncaught exception' => throw new RuntimeException('nobody catches this'),
    'a fatal error' => no_such_function(),
    'running out of memory' => run_out_of_memory(),
    'max_execution_time' => run_out_of_time(),
    'being killed' => be_killed(),
};

function run_out_of_memory(): never
{
    ini_set('memory_limit', '16M');
    $hog = [];
    while (true) {
        $hog[] = str_repeat('x', 1 << 20);
    }
}

function run_out_of_time(): never
{
    set_time_limit(1);
    while (true) {
    }
}

/** Gives the test a sign with the pid, and waits for the signal that ends this process. */
function be_killed(): never
{
    if (isset($_GET['sign'])) {
        file_put_contents($_GET['sign'], getmypid() . "\n");
    }
    while (true) {
        usleep(10_000);
    }
}
