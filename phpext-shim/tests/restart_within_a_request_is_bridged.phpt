--TEST--
The daemon is restarted while a session is open: the write finds it again
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon([], durable: true);
use_coatcheck_sessions();
ini_set('coatcheck.connect_timeout_ms', '20000');
start('bridged');
$_SESSION['n'] = 1;
$daemon->kill();
$daemon->startLater(0.3);
var_dump(session_write_close());
var_dump(stored($daemon->socket, 'bridged'), $daemon->locks());
?>
--EXPECT--
bool(true)
string(6) "n|i:1;"
int(0)
