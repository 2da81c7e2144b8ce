--TEST--
A daemon that hangs at the write: a warning, session_write_close() comes back, the process goes on
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();
start('hang');
$_SESSION['n'] = 1;
ini_set('coatcheck.timeout_ms', '200'); // for later sessions: this one has its own
$daemon->hang();
session_abort();
$daemon->resume();

start('hang');
$_SESSION['n'] = 2;
$daemon->hang();
$waited = milliseconds(session_write_close(...));
echo $waited < 350 || getenv('USE_ZEND_ALLOC') === '0' ? "once\n" : "$waited ms\n";
$daemon->resume();
wait_until(fn () => $daemon->locks() === 0, 'the lock to go with its connection');
?>
--EXPECTF--

Warning: session_write_close(): coatcheck at %s: session hang… is perhaps not written (the outcome is unknown): session.commit: no answer within 200 ms; the daemon hangs or is overloaded in %s on line %d

Warning: session_write_close(): Failed to write session data (coatcheck). Please verify that the current setting of session.save_path is correct () in %s on line %d
once
