--TEST--
coatcheck_call() says which argument cannot be sent; nothing is
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(fn (array $request) => FakeDaemon::result($request, $request[3]));
$deep = [];
for ($i = 0; $i < 20; $i++) {
    $deep = [$deep];
}
$loop = [];
$loop['self'] = &$loop;
foreach ([
    fn () => coatcheck_call('m', ['a' => new stdClass()]),
    fn () => coatcheck_call('m', ['a' => [STDIN]]),
    fn () => coatcheck_call('m', ['a' => $deep]),
    fn () => coatcheck_call('m', $loop),
    fn () => coatcheck_call('m', [], 0),
    fn () => coatcheck_pipeline([['m', ['a' => $deep]]]),
    fn () => coatcheck_pipeline([['m', 'params']]),
    fn () => coatcheck_pipeline(['m']),
    fn () => coatcheck_pipeline([[]]),
] as $call) {
    try {
        $call();
        echo "no exception\n";
    } catch (Error $e) {
        echo $e::class, ': ', $e->getMessage(), "\n";
    }
}
var_dump($fake->methods());
$reference = 5;
echo json_encode(coatcheck_call('m', ['list' => [1, [2.5, null, true]], 'map' => ['k' => 'v', 7 => "b\xc3\xa4"], 'ref' => &$reference])), "\n";
var_dump(coatcheck_pipeline([]));
?>
--EXPECT--
ValueError: coatcheck_call(): Argument #2 ($params) must hold only null, bool, int, float, string and array, stdClass given
ValueError: coatcheck_call(): Argument #2 ($params) must hold only null, bool, int, float, string and array, resource given
ValueError: coatcheck_call(): Argument #2 ($params) must not nest arrays more than 14 deep
ValueError: coatcheck_call(): Argument #2 ($params) must not nest arrays more than 14 deep
ValueError: coatcheck_call(): Argument #3 ($timeoutMs) must be null or greater than 0
ValueError: coatcheck_pipeline(): Argument #1 ($calls) must not nest arrays more than 14 deep
TypeError: coatcheck_pipeline(): Argument #1 ($calls) must be a list of [string method, array params]
TypeError: coatcheck_pipeline(): Argument #1 ($calls) must be a list of [string method, array params]
TypeError: coatcheck_pipeline(): Argument #1 ($calls) must be a list of [string method, array params]
array(0) {
}
{"list":[1,[2.5,null,true]],"map":{"k":"v","7":"b\u00e4"},"ref":5}
array(0) {
}
