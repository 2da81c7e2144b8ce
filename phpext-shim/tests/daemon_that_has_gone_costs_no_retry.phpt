--TEST--
The connection to a daemon that has gone is replaced, and a request that then breaks is still sent once more
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$first = new FakeDaemon(fn ($request) => FakeDaemon::result($request, 'first'));
echo coatcheck_kv_get('k'), "\n";
$first->kill();

$breaks = true;
$second = new FakeDaemon(function ($request) use (&$breaks) {
    [$now, $breaks] = [$breaks, false];
    return $now ? null : FakeDaemon::result($request, 'second');
});
rename($second->socket, $first->socket);
ini_set('coatcheck.socket', $first->socket);
echo coatcheck_kv_get('k'), "\n", implode(' ', $second->methods()), "\n";
?>
--EXPECT--
first
second
connect hello kv.get close connect hello kv.get
