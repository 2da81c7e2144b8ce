--TEST--
A large request waits for the answer to hello, which names the limit
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(fn (array $request) => FakeDaemon::result($request, true), ['max_frame' => 100000] + FakeDaemon::HELLO);
foreach ([99900, 100000] as $size) {
    try {
        var_dump(coatcheck_kv_set('k', str_repeat('x', $size)));
    } catch (Coatcheck\TooLargeException $e) {
        echo preg_replace('~ at \S+(?=:)~', '', $e->getMessage()), ' ', json_encode($e->details), "\n";
    }
}
echo implode(' ', $fake->methods()), "\n";
?>
--EXPECT--
bool(true)
coatcheck: kv.set: the request of 100028 bytes is above the daemon's limit of 100000 bytes; nothing was sent {"size":100028,"limit":100000}
connect hello kv.set
