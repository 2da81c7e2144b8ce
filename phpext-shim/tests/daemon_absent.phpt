--TEST--
No daemon: a warning that says so, session_start() is false, and the session works once the daemon is there
--FILE--
<?php
require __DIR__ . '/support.inc';
use_coatcheck_sessions();
ini_set('coatcheck.socket', scratch_folder() . '/daemon.sock');

var_dump(start('absent'), isset($_SESSION['x']), session_status() === PHP_SESSION_NONE);
$id = session_id('');
ini_set('session.use_strict_mode', '1');
var_dump(@session_start(), @start('keeps-its-id'));
ini_set('session.use_strict_mode', '0');

$daemon = new Daemon();
var_dump(start('absent'), session_write_close(), $daemon->locks());
?>
--EXPECTF--

Warning: session_start(): coatcheck at %sdaemon.sock: session absent… is not read: there is no such socket; is the daemon running (coatcheck serve), and is this its socket? in %s on line %d

Warning: session_start(): Failed to read session data: coatcheck (path: ) in %s on line %d
bool(false)
bool(false)
bool(true)
bool(false)
bool(false)
bool(true)
bool(true)
int(0)
