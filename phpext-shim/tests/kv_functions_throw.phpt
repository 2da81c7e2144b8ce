--TEST--
The coatcheck_kv_ functions throw: a refusal, a bad argument, no daemon
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
coatcheck_kv_set('text', 'abc');
coatcheck_kv_set('top', (string) PHP_INT_MAX);
foreach ([
    fn () => coatcheck_kv_incr('text'),
    fn () => coatcheck_kv_incr('top'),
    fn () => coatcheck_kv_set('k', 'v', 0),
    fn () => coatcheck_kv_set('k', 'v', NAN),
    fn () => coatcheck_kv_setnx('k', 'v', -1.0),
    fn () => coatcheck_kv_expire('k', INF),
    fn () => coatcheck_kv_wait('k', -1, 0),
    fn () => coatcheck_kv_wait('k', 0, -1),
    fn () => coatcheck_kv_scan('', 0, 0),
    fn () => coatcheck_kv_mget([new stdClass()]),
    fn () => coatcheck_kv_get(''),
    fn () => coatcheck_kv_get(str_repeat('k', 65536)),
    fn () => coatcheck_call('kv.sett', ['key' => 'k']),
    fn () => coatcheck_call('kv.set', ['key' => 'k', 'value' => 'v', 'tll_ms' => 5]),
] as $call) {
    try {
        $call();
        echo "no exception\n";
    } catch (Throwable $e) {
        echo $e::class, ' ', $e->reason ?? $e->getMessage(), "\n";
    }
}
?>
--EXPECT--
Coatcheck\RefusedException not_integer
Coatcheck\RefusedException overflow
ValueError coatcheck_kv_set(): Argument #3 ($ttlSeconds) must be greater than 0 and at most 1000000000000
ValueError coatcheck_kv_set(): Argument #3 ($ttlSeconds) must be greater than 0 and at most 1000000000000
ValueError coatcheck_kv_setnx(): Argument #3 ($ttlSeconds) must be greater than 0 and at most 1000000000000
ValueError coatcheck_kv_expire(): Argument #2 ($ttlSeconds) must be greater than 0 and at most 1000000000000
ValueError coatcheck_kv_wait(): Argument #2 ($lastVersion) must be greater than or equal to 0
ValueError coatcheck_kv_wait(): Argument #3 ($timeoutMs) must be between 0 and 86400000
ValueError coatcheck_kv_scan(): Argument #3 ($count) must be greater than 0
Error Object of class stdClass could not be converted to string
Coatcheck\ProtocolException 
Coatcheck\ProtocolException 
Coatcheck\ProtocolException 
Coatcheck\ProtocolException 
