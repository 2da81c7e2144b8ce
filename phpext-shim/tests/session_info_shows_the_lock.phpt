--TEST--
coatcheck_session_info() shows the lock, six characters of its token, the fence and the wait
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(fn (array $request) => $request[2] === 'session.open'
    ? FakeDaemon::result($request, ['data' => new Bin(''), 'found' => false, 'fence' => 42, 'locked' => true, 'waited_ms' => 12])
    : FakeDaemon::session($request));
use_coatcheck_sessions();
var_dump(coatcheck_session_info());
start('info');
$info = coatcheck_session_info();
var_dump($info['token_prefix'] === substr($fake->params('session.open')[0]['token'], 0, 6));
unset($info['token_prefix']);
echo json_encode($info), "\n";
session_write_close();
var_dump(coatcheck_session_info());
?>
--EXPECT--
NULL
bool(true)
{"locked":true,"fence":42,"waited_ms":12}
NULL
