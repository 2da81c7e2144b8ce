--TEST--
lock_failure=readonly: a warning that names the holder, then the data, and changes are dropped with a warning
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();
start('contended');
$_SESSION['n'] = 1;
session_write_close();

$holder = new Worker('start("contended"); say("held"); pause(); $_SESSION["n"] = 9;');
$holder->line();
ini_set('coatcheck.lock_wait', '0.2');
ini_set('coatcheck.lock_failure', 'readonly');
var_dump(start('contended'));
var_dump($_SESSION['n'] ?? null);
if (session_status() === PHP_SESSION_ACTIVE) {
    $_SESSION['n'] = 2;
}
var_dump(session_write_close());
echo stored($daemon->socket, 'contended'), "\n";
$holder->go();
echo $holder->rest(), stored($daemon->socket, 'contended'), "\n";
var_dump($daemon->locks());
?>
--EXPECTF--

Warning: session_start(): coatcheck at %s: session conten%s is busy after 0.%d s of waiting: pid %d (cli, %sworker-1.php) has held the lock for %f s; this request goes on without the lock and its changes will be dropped (coatcheck.lock_failure=readonly) in %s on line %d
bool(true)
int(1)

Warning: session_write_close(): coatcheck at %s: session conten%s is not written: another request holds its lock, and the changes of this one are dropped (coatcheck.lock_failure=readonly) in %s on line %d

Warning: session_write_close(): Failed to write session data (coatcheck). Please verify that the current setting of session.save_path is correct (%S) in %s on line %d
bool(true)
n|i:1;
n|i:9;
int(0)
