--TEST--
The ephpm_kv_ aliases have the originals' meaning: whole seconds, false and null
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
function show(mixed ...$values): void
{
    echo implode(' ', array_map(json_encode(...), $values)), "\n";
}
show(ephpm_kv_get('k'), ephpm_kv_set('k', 'v', 2), ephpm_kv_get('k'), ephpm_kv_ttl('k'), ephpm_kv_pttl('k') > 1000);
show(ephpm_kv_set('k', 'v'), ephpm_kv_ttl('k'), ephpm_kv_set('k', 'v', -5), ephpm_kv_pttl('k'), ephpm_kv_ttl('none'));
show(ephpm_kv_setnx('k', 'w'), ephpm_kv_setnx('new', 'w', 9), ephpm_kv_ttl('new'), ephpm_kv_exists('new'), ephpm_kv_exists('none'));
show(ephpm_kv_del('new'), ephpm_kv_del('new'), ephpm_kv_del_if_eq('k', 'w'), ephpm_kv_del_if_eq('k', 'v'));
show(ephpm_kv_incr('n'), ephpm_kv_decr('n'), ephpm_kv_incr_by('n', 7), ephpm_kv_expire('n', 3), ephpm_kv_incr('n'), ephpm_kv_ttl('n'));
show(ephpm_kv_expire('n', 0), ephpm_kv_expire('none', 3), ephpm_kv_set("b\0", "\0\xff") && ephpm_kv_get("b\0") === "\0\xff");
ephpm_kv_set('text', 'abc');
show(ephpm_kv_incr('text'));
$seen = ephpm_kv_wait('w', 0, 100);
show($seen['value'], ephpm_kv_wait('w', $seen['version'], 20), ephpm_kv_flush_all(), ephpm_kv_get('text'));
$daemon->kill();
show(ephpm_kv_get('k'));
show(ephpm_kv_set('k', 'v'));
?>
--EXPECTF--
null true "v" 2 true
true -1 true -1 -2
false true 9 true false
1 0 false true
1 0 7 true 8 3
false false true

Warning: ephpm_kv_incr(): coatcheck at %s: kv.incr_by: %s in %s on line %d
false
null false true null

Warning: ephpm_kv_get(): coatcheck at %s: connection refused; %s in %s on line %d
null

Warning: ephpm_kv_set(): coatcheck at %s: connection refused; %s in %s on line %d
false
