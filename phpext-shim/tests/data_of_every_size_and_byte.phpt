--TEST--
Data of 0 bytes, with NULs, 1 MiB of random bytes and just below the frame limit comes back as it was
--FILE--
<?php
require __DIR__ . '/support.inc';
ini_set('memory_limit', '512M');
$daemon = new Daemon();
use_coatcheck_sessions();
$handler = new SessionHandler();
session_set_save_handler($handler, false);

foreach (['nothing' => '', 'nuls' => "a\0b\0", 'random' => random_bytes(1 << 20), 'large' => random_bytes((16 << 20) - 400)] as $name => $data) {
    start($name);
    var_dump($handler->write($name, $data), $handler->read($name) === $data);
    session_abort();
}
var_dump($daemon->locks());
?>
--EXPECT--
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
int(0)
