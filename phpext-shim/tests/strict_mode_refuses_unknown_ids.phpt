--TEST--
Strict mode replaces an id that no session has, and keeps one that exists
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();
start('known');
$_SESSION['n'] = 1;
session_write_close();

ini_set('session.use_strict_mode', '1');
start('unknown');
var_dump(session_id() === 'unknown', strlen(session_id()), $daemon->locks());
session_abort();
start('known');
var_dump(session_id(), $_SESSION['n'], $daemon->locks());
session_abort();
start('bad/id');
var_dump(session_id() === 'bad/id');
session_abort();
var_dump($daemon->locks());
?>
--EXPECT--
bool(false)
int(32)
int(1)
string(5) "known"
int(1)
int(1)
bool(false)
int(0)
