--TEST--
session.save_path: empty, a path, a left-over folder, or unix:// with options that override the settings
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(FakeDaemon::session(...));
use_coatcheck_sessions();
ini_set('coatcheck.lock_wait', '7');

$paths = [
    '',
    '/tmp',
    $fake->socket,
    "unix://$fake->socket",
    "unix://$fake->socket?lock_wait=0.25&lock_lease=1.5&lock_failure=fail&prefix=shop%26co",
    "unix://$fake->socket?session_locking=off&timeout_ms=9000&connect_timeout_ms=50",
    'unix://?lock_wait=3',
];
foreach ($paths as $path) {
    session_save_path($path);
    start('s');
    session_write_close();
}
foreach ($fake->params('session.open') as $params) {
    unset($params['token'], $params['script'], $params['id']);
    echo json_encode($params), "\n";
}
foreach ($fake->params('session.commit') as $params) {
    echo $params['prefix'] ?? '-', isset($params['token']) ? ' locked' : ' unlocked', isset($params['release']) ? ', released' : '', "\n";
}
foreach (['lock_wait=soon', 'lock_whait=3', 'lock_wait', 'session_locking=maybe', 'lock_failure=', 'prefix=' . str_repeat('x', 256)] as $option) {
    session_save_path("unix://$fake->socket?$option");
    var_dump(start('s'));
}
session_save_path('relative/path');
var_dump(start('s'));
?>
--EXPECTF--
{"lease_ms":30000,"wait_ms":7000,"policy":"unlocked"}
{"lease_ms":30000,"wait_ms":7000,"policy":"unlocked"}
{"lease_ms":30000,"wait_ms":7000,"policy":"unlocked"}
{"lease_ms":30000,"wait_ms":7000,"policy":"unlocked"}
{"prefix":"shop&co","lease_ms":1500,"wait_ms":250,"policy":"fail"}
[]
{"lease_ms":30000,"wait_ms":3000,"policy":"unlocked"}
- locked, released
- locked, released
- locked, released
- locked, released
shop&co locked, released
- unlocked
- locked, released

Warning: session_start(): coatcheck: session.save_path: the option lock_wait has the bad value "soon" in %s on line %d

Warning: session_start(): Failed to initialize storage module: coatcheck (path: %s) in %s on line %d
bool(false)

Warning: session_start(): coatcheck: session.save_path: unknown option lock_whait; there are lock_wait, lock_lease, lock_failure, session_locking, prefix, timeout_ms, connect_timeout_ms in %s on line %d

Warning: session_start(): Failed to initialize storage module: coatcheck (path: %s) in %s on line %d
bool(false)

Warning: session_start(): coatcheck: session.save_path: the option lock_wait needs a value as in name=value in %s on line %d

Warning: session_start(): Failed to initialize storage module: coatcheck (path: %s) in %s on line %d
bool(false)

Warning: session_start(): coatcheck: session.save_path: the option session_locking has the bad value "maybe" in %s on line %d

Warning: session_start(): Failed to initialize storage module: coatcheck (path: %s) in %s on line %d
bool(false)

Warning: session_start(): coatcheck: session.save_path: the option lock_failure has the bad value "" in %s on line %d

Warning: session_start(): Failed to initialize storage module: coatcheck (path: %s) in %s on line %d
bool(false)

Warning: session_start(): coatcheck: session.save_path: the option prefix has the bad value "xxx%sx" in %s on line %d

Warning: session_start(): Failed to initialize storage module: coatcheck (path: %s) in %s on line %d
bool(false)

Warning: session_start(): coatcheck: session.save_path: "relative/path" is not a socket; session.save_path is empty, an absolute path of at most 107 bytes, or unix:///path?option=value in %s on line %d

Warning: session_start(): Failed to initialize storage module: coatcheck (path: relative/path) in %s on line %d
bool(false)
