--TEST--
A second write and a second close, as PHP does after a bailout, are accepted
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();
$handler = new SessionHandler();
session_set_save_handler($handler, false);
start('twice');
var_dump($handler->write('twice', 'first'), $daemon->locks(), $handler->write('twice', 'second'), stored($daemon->socket, 'twice'));
$_SESSION['n'] = 3;
var_dump(session_write_close(), stored($daemon->socket, 'twice'), $daemon->locks());
?>
--EXPECT--
bool(true)
int(0)
bool(true)
string(6) "second"
bool(true)
string(6) "n|i:3;"
int(0)
