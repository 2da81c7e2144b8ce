--TEST--
Twenty requests at once on one session: each change is kept
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();

$children = [];
for ($i = 0; $i < 20; $i++) {
    $children[] = in_child(function () {
        start('parallel');
        $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
        usleep(20000);
        session_write_close();
    });
}
foreach ($children as $child) {
    pcntl_waitpid($child, $status);
}
start('parallel', ['read_and_close' => true]);
var_dump($_SESSION['n'], $daemon->locks());
?>
--EXPECT--
int(20)
int(0)
