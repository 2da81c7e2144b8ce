--TEST--
A request that left no lock says nothing at its end
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(fn (array $request) => str_starts_with($request[2], 'session.')
    ? FakeDaemon::session($request) : FakeDaemon::result($request, ['fence' => 1, 'waited_ms' => 0]));

(new Worker('start("silent"); session_write_close(); coatcheck_call("lock.acquire", ["name" => "n", "token" => "t"]);'))->rest();
echo implode(' ', $fake->methods()), "\n";
(new Worker('coatcheck_call("lock.acquire", ["name" => "n", "token" => "t", "bound" => true]);'))->rest();
echo implode(' ', array_slice($fake->methods(), 6)), "\n";
?>
--EXPECT--
connect hello session.open session.commit lock.acquire close
connect hello lock.acquire server.end_request close
