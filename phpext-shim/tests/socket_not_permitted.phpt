--TEST--
A socket that this user may not use: the warning says permission denied
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
chmod($daemon->socket, 0600);
use_coatcheck_sessions();

if (posix_geteuid() === 0) {
    posix_seteuid(65534);
} else {
    chmod($daemon->socket, 0);
}
var_dump(start('forbidden'));
if (posix_getuid() === 0) {
    posix_seteuid(0);
}
?>
--EXPECTF--

Warning: session_start(): coatcheck at %s: session forbid… is not read: permission denied; user %d must be in the group of the socket and may need to enter its directory in %s on line %d

Warning: session_start(): Failed to read session data: coatcheck (path: ) in %s on line %d
bool(false)
