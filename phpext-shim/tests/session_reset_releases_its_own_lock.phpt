--TEST--
session_reset() opens twice without a close: no waiting for its own lock, no descriptor left, over 1,000 rounds
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();
start('reset');
$_SESSION['n'] = 1;
session_write_close();

start('reset');
$_SESSION['n'] = 2;
$before = open_descriptors();
$first = milliseconds(session_reset(...));
echo $first < 1000 ? "at once\n" : "after $first ms\n";
var_dump($_SESSION['n']);
for ($i = 1; $i < 1000; $i++) {
    session_reset();
}
var_dump(open_descriptors() - $before, $daemon->locks());
session_write_close();
var_dump($daemon->locks());
?>
--EXPECT--
at once
int(1)
int(0)
int(1)
int(0)
