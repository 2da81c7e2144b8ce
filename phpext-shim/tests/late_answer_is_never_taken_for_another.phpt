--TEST--
An answer that comes too late closes the connection: the next call gets its own answer
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(function (array $request) {
    if ($request[3]['key'] === 'slow') {
        usleep(300000);
    }
    return FakeDaemon::result($request, 'value of ' . $request[3]['key']);
});
try {
    coatcheck_call('kv.get', ['key' => 'slow'], 100);
} catch (Coatcheck\TimeoutException $e) {
    echo preg_replace('~ at \S+(?=:)~', '', $e->getMessage()), "\n";
}
var_dump(coatcheck_call('kv.get', ['key' => 'fast']));
?>
--EXPECT--
coatcheck: kv.get: no answer within 100 ms; the daemon hangs or is overloaded
string(13) "value of fast"
