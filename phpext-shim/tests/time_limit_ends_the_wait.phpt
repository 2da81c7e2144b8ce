--TEST--
max_execution_time ends a wait for a lock, which the files handler cannot do
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();
start('waited-for');
$worker = new Worker('
    declare(ticks=1);
    pcntl_setitimer_prof_stand_in();
    function pcntl_setitimer_prof_stand_in(): void
    {
        // the limit counts processor time where PHP uses ITIMER_PROF: its signal is sent by hand
        $parent = getmypid();
        if (pcntl_fork() === 0) {
            usleep(300000);
            posix_kill($parent, SIGPROF);
            vanish();
        }
    }
    set_time_limit(60);
    start("waited-for");
');
$waited = milliseconds(function () use ($worker) {
    echo preg_replace('/\s+/', ' ', $worker->rest()), "\n";
});
echo $waited < 10000 ? "ended\n" : "after $waited ms\n";
session_abort();
?>
--EXPECTF--
%AWarning: session_start(): coatcheck at %s: session waited… is not read: session.open: stopped waiting because max_execution_time is over %AFatal error: Maximum execution time of 60 seconds exceeded %A
ended
