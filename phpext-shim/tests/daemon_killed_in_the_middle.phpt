--TEST--
The daemon is killed in the middle of a request: each side of it has its warning, and the process recovers
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon([], durable: true);
use_coatcheck_sessions();
ini_set('coatcheck.connect_timeout_ms', '100');
start('middle');
$_SESSION['n'] = 1;
$daemon->kill();
var_dump(session_write_close());
var_dump(start('middle'));
$daemon->start();
var_dump(start('middle'), $_SESSION);
session_write_close();
var_dump($daemon->locks());
?>
--EXPECTF--

Warning: session_write_close(): coatcheck at %s: session middle… is not written: connection refused; the socket is there but no daemon listens on it: start it (coatcheck serve) in %s on line %d

Warning: session_write_close(): Failed to write session data (coatcheck). Please verify that the current setting of session.save_path is correct () in %s on line %d
bool(true)

Warning: session_start(): coatcheck at %s: session middle… is not read: connection refused; %s in %s on line %d

Warning: session_start(): Failed to read session data: coatcheck (path: ) in %s on line %d
bool(false)
bool(true)
array(0) {
}
int(0)
