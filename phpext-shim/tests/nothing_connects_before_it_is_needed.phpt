--TEST--
Loading, starting and ending without use connects to nothing
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(FakeDaemon::session(...));
echo (new Worker('say("unused"); phpinfo(INFO_MODULES); var_dump(coatcheck_session_info());'))->rest() === '' ? '' : "ended\n";
var_dump($fake->methods());
?>
--EXPECT--
ended
array(0) {
}
