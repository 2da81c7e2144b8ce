--TEST--
The daemon is restarted between two requests of one process: no warning, nothing lost
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon([], durable: true);
use_coatcheck_sessions();
start('restart');
$_SESSION['n'] = 1;
session_write_close();

foreach (['stop', 'kill'] as $end) {
    $daemon->$end();
    $daemon->start();
    var_dump(start('restart'), $_SESSION['n']++);
    session_write_close();
}
var_dump(coatcheck_kv_incr('counter'));
$daemon->kill();
$daemon->start();
var_dump(coatcheck_kv_incr('counter'), $daemon->locks());
?>
--EXPECT--
bool(true)
int(1)
bool(true)
int(2)
int(1)
int(2)
int(0)
