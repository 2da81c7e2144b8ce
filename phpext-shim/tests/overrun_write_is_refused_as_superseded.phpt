--TEST--
A overruns its lease and B takes the lock: A's write is refused with the reason, B keeps its lock, C waits
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon(['LOCK_MAX_HOLD' => '0s']);
use_coatcheck_sessions();
ini_set('coatcheck.lock_lease', '0.3');

$a = new Worker('start("overrun"); $_SESSION["by"] = "A"; say("A holds"); pause(); session_write_close();');
echo $a->line(), "\n";
ini_set('coatcheck.lock_lease', '600');
var_dump(start('overrun'));
$a->go();
echo $a->rest();
var_dump(stored($daemon->socket, 'overrun'), $daemon->locks());

ini_set('coatcheck.lock_wait', '0');
ini_set('coatcheck.lock_failure', 'fail');
$c = new Worker('var_dump(@start("overrun"));');
echo 'C: ', $c->rest();
$_SESSION['by'] = 'B';
session_write_close();
var_dump(stored($daemon->socket, 'overrun'), $daemon->locks());
?>
--EXPECTF--
A holds
bool(true)

Warning: session_write_close(): coatcheck at %s: session overru… is not written: refused as superseded: the lease of this request ran out and the lock was granted to another request since; nothing was overwritten in %s on line %d

Warning: session_write_close(): Failed to write session data (coatcheck). Please verify that the current setting of session.save_path is correct (%S) in %s on line %d
NULL
int(1)
C: bool(false)
string(11) "by|s:1:"B";"
int(0)
