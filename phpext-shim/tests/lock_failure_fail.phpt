--TEST--
lock_failure=fail: a warning that names the holder, and session_start() is false
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
ini_set('coatcheck.lock_failure', 'fail');
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

Warning: session_start(): coatcheck at %s: session conten%s is busy after 0.%d s of waiting: pid %d (cli, %sworker-1.php) has held the lock for %f s; the session is not started (coatcheck.lock_failure=fail) in %s on line %d

Warning: session_start(): Failed to read session data: coatcheck (path: %S) in %s on line %d
bool(false)
NULL
bool(false)
n|i:1;
n|i:9;
int(0)
