--TEST--
A locked request costs two round trips; hello goes along with the first
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(FakeDaemon::session(...));
use_coatcheck_sessions();

foreach ([1, 2] as $request) {
    start('two-trips');
    $_SESSION['request'] = $request;
    session_write_close();
}
echo implode(' ', $fake->methods()), "\n";
?>
--EXPECT--
connect hello session.open session.commit session.open session.commit
