--TEST--
A session that is only read stays alive beyond its first gc_maxlifetime
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();
ini_set('session.gc_maxlifetime', '1');
start('alive');
$_SESSION['n'] = 1;
session_write_close();
for ($i = 0; $i < 3; $i++) {
    usleep(600000);
    start('alive');
    echo json_encode($_SESSION), "\n";
    session_write_close();
}
wait_until(fn () => stored($daemon->socket, 'alive') === null, 'the end of the session');
var_dump($daemon->locks());
?>
--EXPECT--
{"n":1}
{"n":1}
{"n":1}
int(0)
