--TEST--
Each error code of the protocol has its exception class, as docs/protocol.md says
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(fn (array $request) =>
    FakeDaemon::error($request, $request[3]['code'], 'the sentence', ['reason' => 'because', 'n' => 1]));
ini_set('coatcheck.connect_timeout_ms', '1');

preg_match('/^## Errors$(.*?)^## /ms', file_get_contents(getenv('COATCHECK_SOURCE') . '/docs/protocol.md'), $section);
preg_match_all('/^\| `(\w+)` \|.*\| `(\w+)` \|$/m', $section[1], $table, PREG_SET_ORDER);
foreach ([...$table, [null, 'of_tomorrow', 'Exception']] as [, $code, $class]) {
    try {
        coatcheck_call('any', ['code' => $code]);
    } catch (Coatcheck\Exception $e) {
        echo "$code: ", $e::class === "Coatcheck\\$class" ? $class : $e::class . " instead of $class";
        echo ' ', $e->reason, ' ', json_encode($e->details), "\n";
    }
}
echo preg_replace('~ at \S+(?=:)~', '', $e->getMessage()), "\n";
foreach (['Connection', 'Timeout', 'Busy', 'Refused', 'UnreachableOwner', 'TooLarge', 'Protocol', 'Unavailable'] as $kind) {
    echo get_parent_class("Coatcheck\\{$kind}Exception") === Coatcheck\Exception::class ? '' : "$kind has another parent\n";
}
var_dump(new Coatcheck\BusyException('by hand') instanceof RuntimeException, (new Coatcheck\Exception())->details);
?>
--EXPECT--
busy: BusyException because {"reason":"because","n":1}
refused: RefusedException because {"reason":"because","n":1}
unreachable: UnreachableOwnerException because {"reason":"because","n":1}
too_large: TooLargeException because {"reason":"because","n":1}
protocol: ProtocolException because {"reason":"because","n":1}
unavailable: UnavailableException because {"reason":"because","n":1}
internal: Exception because {"reason":"because","n":1}
of_tomorrow: Exception because {"reason":"because","n":1}
coatcheck: any: the sentence
bool(true)
array(0) {
}
