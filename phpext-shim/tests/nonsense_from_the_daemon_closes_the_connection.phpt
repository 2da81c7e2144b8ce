--TEST--
Garbage, wrong ids, lengths that cannot be, deep nesting and half answers: an error, a new connection, little memory
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$frame = fn (string $body) => pack('N', strlen($body)) . $body;
$answers = [
    'text' => 'HTTP/1.1 400 Bad Request',
    'length beyond the limit' => "\x7f\xff\xff\xff",
    'length zero' => "\0\0\0\0",
    'not an array' => $frame("\x2a"),
    'request instead of response' => $frame("\x94\x00\x02\xc0\xc0"),
    'id of nobody' => $frame("\x94\x01\xcd\x77\x77\xc0\xc0"),
    'two answers' => fn ($request) => FakeDaemon::result($request, true) . FakeDaemon::result($request, true),
    'string longer than the frame' => $frame("\x94\x01\x01\xc0\xdb\xff\xff\xff\xff"),
    'array of four milliards' => $frame("\x94\x01\x01\xc0\xdd\xff\xff\xff\xff"),
    'map of two milliards' => $frame("\x94\x01\x01\xc0\xdf\x7f\xff\xff\xff"),
    'nested too deep' => $frame("\x94\x01\x01\xc0" . str_repeat("\x91", 100) . "\xc0"),
    'extension type' => $frame("\x94\x01\x01\xc0\xd4\x01\x00"),
    'byte that is never used' => $frame("\x94\x01\x01\xc0\xc1"),
    'bytes after the value' => $frame("\x94\x01\x01\xc0\xc0\xc0"),
    'error that is no list' => fn ($request) => FakeDaemon::result($request, null) === '' ?: $frame("\x94\x01" . Wire::pack($request[1]) . "\xa4oops\xc0"),
];
$fake = new FakeDaemon(function (array $request) use ($answers) {
    $answer = $answers[$request[3]['key']] ?? null;
    return is_callable($answer) ? $answer($request) : $answer ?? FakeDaemon::result($request, 'well');
});
$memory = memory_get_peak_usage();
foreach (array_keys($answers) as $name) {
    try {
        $said = json_encode(coatcheck_kv_get($name));
    } catch (Coatcheck\Exception $e) {
        $said = $e::class . preg_replace('~^coatcheck at \S+(?=:)~', '', $e->getMessage());
    }
    echo "$name: $said\n";
    echo coatcheck_kv_get('after it') === 'well' ? '' : "not well after it\n";
}
echo memory_get_peak_usage() - $memory < 1 << 20 ? "little memory\n" : "much memory\n";
?>
--EXPECT--
text: Coatcheck\ProtocolException: kv.get: the answer claims a length that cannot be; is this the socket of a coatcheck daemon?
length beyond the limit: Coatcheck\ProtocolException: kv.get: the answer claims a length that cannot be; is this the socket of a coatcheck daemon?
length zero: Coatcheck\ProtocolException: kv.get: the answer claims a length that cannot be; is this the socket of a coatcheck daemon?
not an array: Coatcheck\ProtocolException: kv.get: what came back is not an answer; is this the socket of a coatcheck daemon?
request instead of response: Coatcheck\ProtocolException: kv.get: what came back is not an answer; is this the socket of a coatcheck daemon?
id of nobody: Coatcheck\ProtocolException: kv.get: an answer came that nobody asked for (id 30583)
two answers: true
string longer than the frame: Coatcheck\ProtocolException: kv.get: what came back is not an answer; is this the socket of a coatcheck daemon?
array of four milliards: Coatcheck\ProtocolException: kv.get: what came back is not an answer; is this the socket of a coatcheck daemon?
map of two milliards: Coatcheck\ProtocolException: kv.get: what came back is not an answer; is this the socket of a coatcheck daemon?
nested too deep: Coatcheck\ProtocolException: kv.get: what came back is not an answer; is this the socket of a coatcheck daemon?
extension type: Coatcheck\ProtocolException: kv.get: what came back is not an answer; is this the socket of a coatcheck daemon?
byte that is never used: Coatcheck\ProtocolException: kv.get: what came back is not an answer; is this the socket of a coatcheck daemon?
bytes after the value: Coatcheck\ProtocolException: kv.get: what came back is not an answer; is this the socket of a coatcheck daemon?
error that is no list: Coatcheck\ProtocolException: kv.get: the daemon's error is not [code, message, details]
little memory
