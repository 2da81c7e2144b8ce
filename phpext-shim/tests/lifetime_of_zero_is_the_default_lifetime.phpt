--TEST--
gc_maxlifetime of 0 or less means 1440 seconds, not a session that ends at once
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(FakeDaemon::session(...));
use_coatcheck_sessions();
foreach (['0', '-5', '10'] as $lifetime) {
    ini_set('session.gc_maxlifetime', $lifetime);
    start('lifetime');
    session_write_close();
}
echo implode(' ', array_column($fake->params('session.commit'), 'ttl_ms')), "\n";
?>
--EXPECT--
1440000 1440000 10000
