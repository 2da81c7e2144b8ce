--TEST--
exit, exception, fatal error, out of memory and time limit write and release as PHP's own handler does
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();

$endings = [
    'exit' => 'exit;',
    'die' => '(function () { die("died"); })();',
    'exception' => 'throw new Exception("uncaught");',
    'error' => 'undefined_function();',
    'memory' => 'ini_set("memory_limit", "8M"); str_repeat("x", 1 << 24);',
    'time' => 'set_time_limit(1); while (true);',
];
foreach ($endings as $name => $code) {
    $worker = new Worker("start('$name'); \$_SESSION['ended'] = '$name'; $code");
    $worker->rest();
    echo "$name: ", stored($daemon->socket, $name), ', locks: ', $daemon->locks(), "\n";
}
?>
--EXPECT--
exit: ended|s:4:"exit";, locks: 0
die: ended|s:3:"die";, locks: 0
exception: ended|s:9:"exception";, locks: 0
error: ended|s:5:"error";, locks: 0
memory: ended|s:6:"memory";, locks: 0
time: ended|s:4:"time";, locks: 0
