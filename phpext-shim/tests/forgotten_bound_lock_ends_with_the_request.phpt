--TEST--
A bound lock that the script forgot ends with its request; a detached one does not
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
(new Worker('
    coatcheck_call("lock.acquire", ["name" => "bound", "token" => "a", "lease_ms" => 60000, "bound" => true]);
    coatcheck_call("lock.acquire", ["name" => "detached", "token" => "a", "lease_ms" => 60000]);
'))->rest();
wait_until(fn () => count(coatcheck_call('lock.list')) === 1, 'the bound lock to end');
echo coatcheck_call('lock.list')[0]['name'], "\n";
try {
    coatcheck_call('lock.acquire', ['name' => 'detached', 'token' => 'b', 'lease_ms' => 1000, 'wait_ms' => 50]);
} catch (Coatcheck\BusyException $e) {
    echo $e->reason, ' ', $e->details['waited_ms'] >= 50 ? 'after the wait' : 'too early', ' ', is_int($e->details['holder']['pid']) ? 'with a holder' : '', "\n";
}
var_dump(coatcheck_call('lock.release', ['name' => 'detached', 'token' => 'b']), coatcheck_call('lock.release', ['name' => 'detached', 'token' => 'a']));
?>
--EXPECT--
detached
wait_over after the wait with a holder
bool(false)
bool(true)
