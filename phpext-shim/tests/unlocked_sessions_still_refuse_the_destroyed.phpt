--TEST--
session_locking=Off takes no lock, lets the last writer win, and still refuses a write after a destroy
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();
ini_set('coatcheck.session_locking', '0');
start('open-house');
var_dump($daemon->locks(), coatcheck_session_info());
$other = new Worker('start("open-house"); $_SESSION["by"] = "other"; session_write_close();');
$other->rest();
$_SESSION['by'] = 'me';
session_write_close();
var_dump(stored($daemon->socket, 'open-house'));

start('open-house');
$_SESSION['by'] = 'too late';
$destroyer = new Worker('start("open-house"); session_destroy();');
$destroyer->rest();
session_write_close();
var_dump(stored($daemon->socket, 'open-house'));
?>
--EXPECTF--
int(0)
array(4) {
  ["locked"]=>
  bool(false)
  ["token_prefix"]=>
  string(0) ""
  ["fence"]=>
  int(%d)
  ["waited_ms"]=>
  int(0)
}
string(12) "by|s:2:"me";"

Warning: session_write_close(): coatcheck at %s: session open-h… is not written: refused as destroyed: another request destroyed the session after this one had read it; it stays destroyed in %s on line %d

Warning: session_write_close(): Failed to write session data (coatcheck). Please verify that the current setting of session.save_path is correct () in %s on line %d
NULL
