--TEST--
An owner that does not answer is not contention: a warning, and close releases a grant that did land
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(fn (array $request) => $request[2] === 'session.open'
    ? FakeDaemon::error($request, 'unreachable', 'node b did not answer')
    : FakeDaemon::session($request));
use_coatcheck_sessions();
var_dump(start('far-away'));
echo implode(' ', $fake->methods()), "\n";
var_dump($fake->params('session.open')[0]['token'] === $fake->params('session.release')[0]['token']);
?>
--EXPECTF--

Warning: session_start(): coatcheck at %s: session far-aw… is not read: session.open: node b did not answer in %s on line %d

Warning: session_start(): Failed to read session data: coatcheck (path: ) in %s on line %d
bool(false)
connect hello session.open session.release
bool(true)
