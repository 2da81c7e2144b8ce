--TEST--
coatcheck_pipeline(): one write, the answers under the calls' keys, failures as exceptions in their places
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
ini_set('coatcheck.timeout_ms', '60000');
$version = coatcheck_kv_wait('absent', 0, 0)['version'];
$answers = coatcheck_pipeline([
    'set' => ['kv.set', ['key' => 'k', 'value' => 'not a number']],
    7 => ['kv.get', ['key' => 'k']],
    'incr' => ['kv.incr_by', ['key' => 'k']],
    'wait' => ['kv.wait', ['key' => 'absent', 'version' => $version, 'timeout_ms' => 50]],
    'ping' => ['server.ping'],
]);
foreach ($answers as $key => $answer) {
    echo $key, ': ', $answer instanceof Coatcheck\RefusedException ? $answer->reason : json_encode($answer), "\n";
}
// more than the socket's buffers hold in either direction
$calls = array_fill(0, 300, ['kv.set', ['key' => 'big', 'value' => str_repeat('x', 20000), 'get' => true]]);
$answers = coatcheck_pipeline($calls);
var_dump(count($answers), strlen($answers[299][1]));
?>
--EXPECT--
set: true
7: "not a number"
incr: not_integer
wait: null
ping: true
int(300)
int(20000)
