--TEST--
A session above the frame limit: the warning names size and limit, nothing is stored, no lock stays
--FILE--
<?php
require __DIR__ . '/support.inc';
ini_set('memory_limit', '512M');
$daemon = new Daemon();
use_coatcheck_sessions();
start('fat');
$_SESSION['n'] = 1;
session_write_close();

start('fat');
$_SESSION['fat'] = str_repeat('x', 17 << 20);
var_dump(session_write_close(), stored($daemon->socket, 'fat'), $daemon->locks());
var_dump(start('fat'), $_SESSION);
session_write_close();

// the daemon's own limit counts, also on a connection that is new
$small = new Worker('
    start("fat");
    coatcheck_call("server.ping");
    $_SESSION["fat"] = str_repeat("x", 20 << 20);
', ['memory_limit' => '512M']);
echo preg_replace('/\s+/', ' ', $small->rest());
?>
--EXPECTF--

Warning: session_write_close(): coatcheck at %s: session fat… is not written: session.commit: the request of 178%d bytes is above the daemon's limit of 16777216 bytes; nothing was sent in %s on line %d

Warning: session_write_close(): Failed to write session data (coatcheck). Please verify that the current setting of session.save_path is correct () in %s on line %d
bool(true)
string(6) "n|i:1;"
int(0)
bool(true)
array(1) {
  ["n"]=>
  int(1)
}
%AWarning: PHP Request Shutdown: coatcheck at %s: session fat… is not written: session.commit: the request of 209%d bytes is above the daemon's limit of 16777216 bytes; nothing was sent in Unknown on line 0%A
