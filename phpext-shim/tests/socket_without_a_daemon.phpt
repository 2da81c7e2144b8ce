--TEST--
A socket that nobody listens on: the warning says connection refused
--FILE--
<?php
require __DIR__ . '/support.inc';
use_coatcheck_sessions();
$socket = scratch_folder() . '/left-over.sock';
// closing without unlinking leaves the file behind, as a crash does
fclose(stream_socket_server("unix://$socket"));
ini_set('coatcheck.socket', $socket);
ini_set('coatcheck.connect_timeout_ms', '60000');
$waited = milliseconds(fn () => var_dump(start('refused')));
echo $waited < 30000 ? "without waiting\n" : "after $waited ms\n";
?>
--EXPECTF--

Warning: session_start(): coatcheck at %s: session refuse… is not read: connection refused; the socket is there but no daemon listens on it: start it (coatcheck serve) in %s on line %d

Warning: session_start(): Failed to read session data: coatcheck (path: ) in %s on line %d
bool(false)
without waiting
