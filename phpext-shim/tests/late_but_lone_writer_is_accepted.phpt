--TEST--
A lease that ran out while nobody else came costs nothing
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon(['LOCK_MAX_HOLD' => '0s']);
use_coatcheck_sessions();
ini_set('coatcheck.lock_lease', '0.1');

start('lone');
$_SESSION['late'] = true;
wait_until(fn () => $daemon->locks() === 0, 'the lease to run out');
var_dump(session_write_close());
var_dump(stored($daemon->socket, 'lone'));
?>
--EXPECT--
bool(true)
string(9) "late|b:1;"
