--TEST--
lazy_write: an unchanged session is touched, not written; its life is extended
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(fn (array $request) => $request[2] === 'session.open'
    ? FakeDaemon::result($request, ['data' => new Bin('n|i:1;'), 'found' => true, 'fence' => 7, 'locked' => true, 'waited_ms' => 0])
    : FakeDaemon::session($request));
use_coatcheck_sessions();

ini_set('session.gc_maxlifetime', '77');
start('touched');
session_write_close();
ini_set('session.lazy_write', '0');
start('touched');
session_write_close();
foreach ($fake->params('session.commit') as $params) {
    unset($params['token']);
    echo json_encode($params), "\n";
}
?>
--EXPECT--
{"id":"touched","fence":7,"touch":true,"ttl_ms":77000,"release":true}
{"id":"touched","fence":7,"data":"n|i:1;","ttl_ms":77000,"release":true}
