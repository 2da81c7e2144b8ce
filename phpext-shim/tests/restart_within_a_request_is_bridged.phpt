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

// A close that writes nothing waits for no daemon, and does not keep the next start from doing so.
start('bridged');
$daemon->kill();
var_dump(milliseconds(session_abort(...)) < 5000);
$daemon->startLater(0.3);
var_dump(start('bridged'), $_SESSION['n']);
session_write_close();
var_dump($daemon->locks());
?>
--EXPECT--
bool(true)
string(6) "n|i:1;"
int(0)
bool(true)
bool(true)
int(1)
int(0)
