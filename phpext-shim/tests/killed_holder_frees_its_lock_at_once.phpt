--TEST--
kill -9 of the holder frees the session in less than 100 ms
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();

$holder = new Worker('start("victim"); $_SESSION["lost"] = 1; say("held"); pause();');
echo $holder->line(), "\n";
$holder->kill();
$waited = milliseconds(fn () => start('victim'));
echo $waited < (getenv('USE_ZEND_ALLOC') === '0' ? 1000 : 100) ? "at once\n" : "after $waited ms\n";
var_dump($_SESSION);
session_abort();
?>
--EXPECT--
held
at once
array(0) {
}
