--TEST--
session_abort() and read_and_close release without writing
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();
start('plain');
$_SESSION['n'] = 1;
session_write_close();

start('plain');
$_SESSION['n'] = 2;
var_dump(session_abort(), stored($daemon->socket, 'plain'), $daemon->locks());

foreach ([1, 2] as $time) {
    start('plain', ['read_and_close' => true]);
    var_dump($_SESSION['n'], $daemon->locks());
}
var_dump(start('plain'), $daemon->locks());
session_write_close();
?>
--EXPECT--
bool(true)
string(6) "n|i:1;"
int(0)
int(1)
int(0)
int(1)
int(0)
bool(true)
int(1)
