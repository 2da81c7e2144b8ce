--TEST--
A session is stored by one request and found by the next
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();

var_dump(start('round-trip'));
$_SESSION = ['name' => 'Ada', 'n' => 1];
var_dump(session_write_close());
var_dump(stored($daemon->socket, 'round-trip'));

start('round-trip');
var_dump($_SESSION);
$_SESSION['n']++;
session_write_close();
start('round-trip', ['read_and_close' => true]);
var_dump($_SESSION['n'], $daemon->locks());
?>
--EXPECT--
bool(true)
bool(true)
string(21) "name|s:3:"Ada";n|i:1;"
array(2) {
  ["name"]=>
  string(3) "Ada"
  ["n"]=>
  int(1)
}
int(2)
int(0)
