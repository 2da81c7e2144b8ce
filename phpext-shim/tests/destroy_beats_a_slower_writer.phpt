--TEST--
A request that destroys the session beats a slower one with the old data; the id can be used again
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();
start('doomed');
$_SESSION['user'] = 'Ada';
session_write_close();

$slow = new Worker('start("doomed"); $_SESSION["user"] = "back"; say("held"); pause(); session_write_close();');
$slow->line();
ini_set('coatcheck.lock_wait', '0');
@start('doomed');
var_dump(session_destroy(), stored($daemon->socket, 'doomed'));
$slow->go();
echo $slow->rest();
var_dump(stored($daemon->socket, 'doomed'), $daemon->locks());

start('doomed');
$_SESSION['user'] = 'Bob';
session_write_close();
var_dump(stored($daemon->socket, 'doomed'));
?>
--EXPECTF--
bool(true)
NULL

Warning: session_write_close(): coatcheck at %s: session doomed… is not written: refused as destroyed: another request destroyed the session after this one had read it; it stays destroyed in %s on line %d

Warning: session_write_close(): Failed to write session data (coatcheck). Please verify that the current setting of session.save_path is correct (%S) in %s on line %d
NULL
int(0)
string(15) "user|s:3:"Bob";"
