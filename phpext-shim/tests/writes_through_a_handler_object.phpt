--TEST--
SessionHandler::write() for another id goes beside the current session, which keeps its lock
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();
$handler = new SessionHandler();
session_set_save_handler($handler, false);
start('current');
$_SESSION['n'] = 1;
var_dump($handler->write('beside', 'raw'), $handler->destroy('nobody'), stored($daemon->socket, 'beside'), $daemon->locks());
var_dump(coatcheck_session_info()['locked'], session_write_close(), stored($daemon->socket, 'current'), $daemon->locks());
?>
--EXPECT--
bool(true)
bool(true)
string(3) "raw"
int(1)
bool(true)
bool(true)
string(6) "n|i:1;"
int(0)
