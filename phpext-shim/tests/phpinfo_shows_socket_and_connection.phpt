--TEST--
phpinfo() names version, library, socket and the state of the connection
--FILE--
<?php
require __DIR__ . '/support.inc';
$info = function (): string {
    ob_start();
    phpinfo(INFO_MODULES);
    return preg_match('/^coatcheck\n.*?^coatcheck\.timeout_ms[^\n]*\n/ms', ob_get_clean(), $section) ? $section[0] : 'no section';
};
$daemon = new Daemon();
echo $info(), "\n";
coatcheck_call('server.ping');
echo preg_match('/^Connection => .*/m', $info(), $line) ? $line[0] : 'no line', "\n";
?>
--EXPECTF--
coatcheck

coatcheck support => enabled
Version => %d.%d.%d
MessagePack library => %d.%d.%d
Session save handler => coatcheck
Socket => %sdaemon.sock
Connection => not connected (a request connects when it first needs the daemon)

Directive => Local Value => Master Value
coatcheck.connect_timeout_ms => 1000 => 1000
coatcheck.lock_failure => unlocked => unlocked
coatcheck.lock_lease => 30 => 30
coatcheck.lock_wait => 30 => 30
coatcheck.prefix => no value => no value
coatcheck.session_locking => On => On
coatcheck.socket => %sdaemon.sock => /run/coatcheck/coatcheck.sock
coatcheck.timeout_ms => 5000 => 5000

Connection => connected since %d-%d-%d %d:%d:%d, pid %d, daemon %s, frame limit 16777216 bytes
