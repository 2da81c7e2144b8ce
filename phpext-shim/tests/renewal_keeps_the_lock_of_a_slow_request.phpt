--TEST--
A slow request keeps its lock beyond its lease while its connection lives
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();
ini_set('coatcheck.lock_lease', '0.2');

$slow = new Worker('start("slow"); usleep(100000); say("held"); usleep(700000); $_SESSION["kept"] = 1;');
$slow->line();
start('slow');
var_dump($_SESSION);
echo $slow->rest();
session_abort();
?>
--EXPECT--
array(1) {
  ["kept"]=>
  int(1)
}
