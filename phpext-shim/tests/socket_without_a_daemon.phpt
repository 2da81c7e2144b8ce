--TEST--
A socket that nobody listens on: the warning says connection refused
--FILE--
<?php
require __DIR__ . '/support.inc';
use_coatcheck_sessions();
$socket = scratch_folder() . '/left-over.sock';
$server = stream_socket_server("unix://$socket", $code, $message);
// closing without unlinking leaves the file behind, as a crash does
$left = socket_import_or_copy($server, $socket);
ini_set('coatcheck.socket', $socket);
$waited = milliseconds(fn () => var_dump(start('refused')));
echo $waited < 500 ? "at once\n" : "after $waited ms\n";

function socket_import_or_copy($server, string $socket): void
{
    fclose($server);
    if (!file_exists($socket)) {
        exit("the socket is gone\n");
    }
}
?>
--EXPECTF--

Warning: session_start(): coatcheck at %s: session refuse… is not read: connection refused; the socket is there but no daemon listens on it: start it (coatcheck serve) in %s on line %d

Warning: session_start(): Failed to read session data: coatcheck (path: ) in %s on line %d
bool(false)
at once
