--TEST--
A touch whose record has vanished meanwhile writes the data
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();
ini_set('session.gc_maxlifetime', '1');
start('vanished');
$_SESSION['n'] = 1;
session_write_close();
start('vanished');
wait_until(fn () => stored($daemon->socket, 'vanished') === null, 'the end of the record');
var_dump(session_write_close(), stored($daemon->socket, 'vanished'), $daemon->locks());
?>
--EXPECT--
bool(true)
string(6) "n|i:1;"
int(0)
