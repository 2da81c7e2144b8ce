--TEST--
A connection that breaks within an answer: one more try where that does no harm, else unknown outcome
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(fn () => null);
use_coatcheck_sessions();
$calls = [
    'read again' => fn () => coatcheck_kv_get('k'),
    'sent once' => fn () => coatcheck_kv_set('k', 'v'),
    'sent once, too' => fn () => coatcheck_pipeline([['kv.get', ['key' => 'k']], ['kv.append', ['key' => 'k', 'value' => 'v']]]),
];
foreach ($calls as $what => $call) {
    try {
        $call();
    } catch (Coatcheck\ConnectionException $e) {
        echo "$what: ", preg_replace('~ at \S+(?=:)~', '', $e->getMessage()), "\n";
    }
}
var_dump(start('broken'));
wait_until(fn () => array_slice($fake->methods(), -1) === ['close'], 'the last connection to end');
echo implode(' ', $fake->methods()), "\n";
?>
--EXPECTF--
read again: coatcheck: kv.get: the daemon closed the connection before it answered (was it stopped or killed?)
sent once: coatcheck: kv.set: the daemon closed the connection before it answered (was it stopped or killed?); whether it was carried out is unknown
sent once, too: coatcheck: kv.get: the daemon closed the connection before it answered (was it stopped or killed?); whether it was carried out is unknown

Warning: session_start(): coatcheck at %s: session broken… is not read: session.open: the daemon closed the connection before it answered (was it stopped or killed?) in %s on line %d

Warning: session_start(): Failed to read session data: coatcheck (path: ) in %s on line %d
bool(false)
connect hello kv.get close connect hello kv.get close connect hello kv.set close connect hello kv.get close connect hello session.open close connect hello session.open close connect hello session.release close connect hello session.release close
