--TEST--
The daemon is killed and comes back with the lock of a request that has ended: its process releases it when it next asks anything
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon([], durable: true);
use_coatcheck_sessions();
ini_set('coatcheck.connect_timeout_ms', '50');

/** A request that ends while no daemon runs; then the daemon is back, with the lock. */
function leave_lock(Daemon $daemon, string $id): void
{
    start($id);
    $_SESSION['n'] = 1;
    $daemon->kill();
    @session_write_close();
    $daemon->start();
    echo $daemon->locks(), " left, ";
}

leave_lock($daemon, 'same-id');
$took = milliseconds(function () use (&$started) {
    $started = start('same-id');
});
session_write_close();
echo $started && $took < 5000 ? "the same id at once, " : "the same id after $took ms, ", $daemon->locks(), " held\n";

leave_lock($daemon, 'other-id');
coatcheck_kv_get('anything');
echo $daemon->locks(), " held after a get\n";

leave_lock($daemon, 'another-process');
$other = new Worker('say("waits"); start("another-process"); session_write_close(); say("had it");', ['coatcheck.lock_lease' => '600']);
$other->line();
wait_until(fn () => $daemon->status()['waiters'] === 1, 'the other process to wait');
coatcheck_kv_get('anything');
echo $other->line(), "\n";
$other->rest();
wait_until(fn () => $daemon->locks() === 0, 'the other process to release');
?>
--EXPECT--
1 left, the same id at once, 0 held
1 left, 0 held after a get
1 left, had it
