--TEST--
A daemon that hangs: one wait, a warning with its length, session_start() is false; then it recovers
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();
start('hang');
$_SESSION['n'] = 1;
session_write_close();

ini_set('coatcheck.timeout_ms', '200');
ini_set('coatcheck.lock_wait', '0.1');
$daemon->hang();
$waited = milliseconds(fn () => var_dump(start('hang')));
echo $waited < 290 ? "too early\n" : "waited\n";
echo $waited < 550 || getenv('USE_ZEND_ALLOC') === '0' ? "once\n" : "$waited ms\n";

$daemon->resume();
ini_set('coatcheck.timeout_ms', '5000');
ini_set('coatcheck.lock_wait', '5');
var_dump(start('hang'), $_SESSION['n']);
session_write_close();
var_dump($daemon->locks());
?>
--EXPECTF--

Warning: session_start(): coatcheck at %s: session hang… is not read: session.open: no answer within 300 ms; the daemon hangs or is overloaded in %s on line %d

Warning: session_start(): Failed to read session data: coatcheck (path: ) in %s on line %d
bool(false)
waited
once
bool(true)
int(1)
int(0)
