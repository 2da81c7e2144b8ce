--TEST--
Parent and child talk at the same time: each gets its own answers
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
coatcheck_kv_set('role-parent', 'parent');
coatcheck_kv_set('role-child', 'child');

$wrong = function (string $role): int {
    $wrong = 0;
    for ($i = 0; $i < 200; $i++) {
        $wrong += coatcheck_kv_get("role-$role") !== $role;
    }
    return $wrong;
};
$pid = in_child(function () use ($wrong) {
    coatcheck_kv_set('wrong-in-child', (string) $wrong('child'));
});
echo $wrong('parent'), "\n";
pcntl_waitpid($pid, $status);
echo coatcheck_kv_get('wrong-in-child'), "\n";
?>
--EXPECT--
0
0
