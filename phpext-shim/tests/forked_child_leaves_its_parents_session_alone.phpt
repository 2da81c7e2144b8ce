--TEST--
A forked child ends, stores and destroys nothing of its parent's session; the parent stays right
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();
start('family');
$_SESSION['by'] = 'parent';

$pid = in_child(function () use ($daemon) {
    $_SESSION['by'] = 'child';
    var_dump(session_write_close());
    var_dump($daemon->locks());
    // a connection of its own, and a session of its own
    var_dump(coatcheck_call('server.ping'), start('child'));
    session_abort();
});
pcntl_waitpid($pid, $status);
$pid = in_child(function () {
    exit(0); // PHP's whole shutdown, in a child that has the session open
});
pcntl_waitpid($pid, $status);

var_dump($daemon->locks(), coatcheck_session_info()['locked']);
var_dump(session_write_close(), stored($daemon->socket, 'family'), $daemon->locks());
?>
--EXPECTF--

Warning: session_write_close(): coatcheck at %s: session family… is not written: it belongs to the process that forked this one in %s on line %d

Warning: session_write_close(): Failed to write session data (coatcheck). Please verify that the current setting of session.save_path is correct () in %s on line %d
bool(true)
int(1)
bool(true)
bool(true)

Warning: PHP Request Shutdown: coatcheck at %s: session family… is not written: it belongs to the process that forked this one in Unknown on line 0

Warning: PHP Request Shutdown: Failed to write session data (coatcheck). Please verify that the current setting of session.save_path is correct () in Unknown on line 0
int(1)
bool(true)
bool(true)
string(16) "by|s:6:"parent";"
int(0)
