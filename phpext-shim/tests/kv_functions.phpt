--TEST--
The coatcheck_kv_ functions over every option they have
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
function show(mixed ...$values): void
{
    echo implode(' ', array_map(json_encode(...), $values)), "\n";
}
show(coatcheck_kv_get('k'), coatcheck_kv_set('k', 'v'), coatcheck_kv_get('k'));
show(coatcheck_kv_set('k', 'w', nx: true), coatcheck_kv_set('k', 'w', xx: true), coatcheck_kv_set('none', 'w', xx: true));
show(coatcheck_kv_set('k', 'x', ifeq: 'v'), coatcheck_kv_set('k', 'x', ifeq: 'w'), coatcheck_kv_set('k', 'y', get: true));
show(coatcheck_kv_ttl('k'), coatcheck_kv_pttl('none'), coatcheck_kv_expire('k', 60.5), coatcheck_kv_ttl('k') > 30, coatcheck_kv_expire('none', 1));
show(coatcheck_kv_set('k', 'z', keepttl: true), coatcheck_kv_pttl('k') > 1000, coatcheck_kv_set('k', 'z'), coatcheck_kv_ttl('k'));
show(coatcheck_kv_setnx('k', 'a'), coatcheck_kv_setnx('new', 'a', 60.5), coatcheck_kv_pttl('new') > 0, coatcheck_kv_exists('new'), coatcheck_kv_exists('none'));
show(coatcheck_kv_expire_if_eq('k', 'not z', 9), coatcheck_kv_expire_if_eq('k', 'z', 900), coatcheck_kv_ttl('k') > 800);
show(coatcheck_kv_del_if_eq('k', 'not z'), coatcheck_kv_del_if_eq('k', 'z'), coatcheck_kv_get('k'));
show(coatcheck_kv_incr('n'), coatcheck_kv_incr_by('n', 41), coatcheck_kv_decr('n'), coatcheck_kv_incr_by('none', 1, create: false));
show(coatcheck_kv_incr_by('t', 1, 500.0), coatcheck_kv_ttl('t') > 400, coatcheck_kv_incr_by('n', -100, floor: 0));
show(coatcheck_kv_set('5', 'five'), coatcheck_kv_mget(['5', 'none', 'n']), coatcheck_kv_mget([]), coatcheck_kv_mget([5]));
show(coatcheck_kv_getdel('5'), coatcheck_kv_getdel('5'), coatcheck_kv_del('n'), coatcheck_kv_del(['n', 't', 'new']), coatcheck_kv_del([]));
$key = "bin\0\xff";
show(coatcheck_kv_set($key, $value = random_bytes(300)), coatcheck_kv_get($key) === $value, coatcheck_kv_mget([$key])[$key] === $value, coatcheck_kv_scan("bin\0")[1] === [$key]);
show(coatcheck_kv_set('b', 'elsewhere', bucket: 'views'), coatcheck_kv_get('b'), coatcheck_kv_get('b', 'views'), coatcheck_kv_mget(['b'], 'views'));
foreach (range(1, 25) as $i) {
    coatcheck_kv_set("s$i", '');
}
$found = [];
$cursor = 0;
do {
    [$cursor, $keys] = coatcheck_kv_scan('s', $cursor, 10);
    $found = [...$found, ...$keys];
} while ($cursor !== 0);
show(count(array_unique($found)), coatcheck_kv_flush_all('views'), coatcheck_kv_get('b', 'views'), coatcheck_kv_get('s1'), coatcheck_kv_flush_all(), coatcheck_kv_get('s1'));
$seen = coatcheck_kv_wait('watched', 0, 1000);
show($seen['value'], coatcheck_kv_wait('watched', $seen['version'], 20));
coatcheck_kv_set('watched', 'now');
$next = coatcheck_kv_wait('watched', $seen['version'], 1000);
show($next['value'], $next['version'] > $seen['version']);
?>
--EXPECT--
null true "v"
false true false
false true [true,"x"]
-1 -2 true true false
true true true -1
false true true true false
false true true
false true null
1 42 41 null
1 true 0
true {"5":"five","none":null,"n":"0"} [] {"5":"five"}
"five" null 1 2 0
true true true true
true null "elsewhere" {"b":"elsewhere"}
25 true null "" true null
null false
"now" true
