--TEST--
An empty session is stored and is found, other than a missing one
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();
var_dump(start('empty'), $_SESSION, session_write_close(), stored($daemon->socket, 'empty'), $daemon->locks());
ini_set('session.use_strict_mode', '1');
start('empty');
var_dump(session_id());
session_abort();
?>
--EXPECT--
bool(true)
array(0) {
}
bool(true)
string(0) ""
int(0)
string(5) "empty"
