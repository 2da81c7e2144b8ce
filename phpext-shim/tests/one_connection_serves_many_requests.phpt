--TEST--
One worker, many requests: one connection, kept over a restart of the daemon
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon([], durable: true);
$server = new WebServer(['count.php' => 'session_id("many"); session_start(); echo $_SESSION["n"] = ($_SESSION["n"] ?? 0) + 1;']);
foreach (range(1, 5) as $i) {
    echo $server->request('/count.php'), ' ';
}
echo "\n";
// the one that asks is counted as well
var_dump($daemon->status()['connections'] - 1);
foreach (['stop', 'kill'] as $end) {
    $daemon->$end();
    $daemon->start();
    echo $server->request('/count.php'), "\n";
}
$daemon->kill();
echo preg_match('/session many.* is not read: connection refused/', $server->request('/count.php')), "\n";
$daemon->start();
echo $server->request('/count.php'), "\n";
var_dump($daemon->locks());
?>
--EXPECT--
1 2 3 4 5 
int(1)
6
7
1
8
int(0)
