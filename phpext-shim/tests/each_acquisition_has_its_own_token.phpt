--TEST--
Every acquisition has a token of its own of 128 random bits
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(FakeDaemon::session(...));
use_coatcheck_sessions();

for ($i = 0; $i < 5; $i++) {
    start('same-session');
    session_write_close();
}
$tokens = array_column($fake->params('session.open'), 'token');
var_dump(count(array_unique($tokens)), count(preg_grep('/^[0-9a-f]{32}$/D', $tokens)));
var_dump(array_column($fake->params('session.commit'), 'token') === $tokens);
?>
--EXPECT--
int(5)
int(5)
bool(true)
