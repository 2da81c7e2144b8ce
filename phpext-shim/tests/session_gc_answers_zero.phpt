--TEST--
session_gc() answers 0 at once: the daemon ends sessions by itself
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(FakeDaemon::session(...));
use_coatcheck_sessions();
start('gc');
var_dump(session_gc());
session_write_close();
echo implode(' ', $fake->methods()), "\n";
?>
--EXPECT--
int(0)
connect hello session.open session.commit
