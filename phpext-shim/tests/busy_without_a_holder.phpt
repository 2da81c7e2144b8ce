--TEST--
A lock that is free but promised to those who wait already: the warning is a whole sentence that names nobody
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(fn (array $request) => match (true) {
    $request[2] !== 'session.open' => FakeDaemon::session($request),
    $request[3]['policy'] === 'fail' => FakeDaemon::error($request, 'busy', 'the lock is busy', ['reason' => 'queue_full', 'waited_ms' => 0, 'waiters' => 64]),
    default => FakeDaemon::result($request, ['data' => new Bin(''), 'found' => false, 'fence' => 7, 'locked' => false, 'waited_ms' => 0]),
});
use_coatcheck_sessions();
foreach (['unlocked', 'readonly', 'fail'] as $answer) {
    ini_set('coatcheck.lock_failure', $answer);
    var_dump(start('free'));
    session_abort();
}
?>
--EXPECTF--

Warning: session_start(): coatcheck at %s: session free… is busy after 0.0 s of waiting: others have waited for the lock longer and get it first; this request goes on without the lock, and the last of the two to write wins (coatcheck.lock_failure=unlocked) in %s on line %d
bool(true)

Warning: session_start(): coatcheck at %s: session free… is busy after 0.0 s of waiting: others have waited for the lock longer and get it first; this request goes on without the lock and its changes will be dropped (coatcheck.lock_failure=readonly) in %s on line %d
bool(true)

Warning: session_start(): coatcheck at %s: session free… is busy after 0.0 s of waiting: others have waited for the lock longer and get it first; the session is not started (coatcheck.lock_failure=fail) in %s on line %d

Warning: session_start(): Failed to read session data: coatcheck (path: ) in %s on line %d
bool(false)
