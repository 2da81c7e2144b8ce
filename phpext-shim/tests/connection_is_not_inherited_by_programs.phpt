--TEST--
The connection is closed on exec, and there is one for a whole process
--FILE--
<?php
require __DIR__ . '/support.inc';
function sockets(): array
{
    $sockets = [];
    foreach (glob('/proc/self/fd/*') as $link) {
        $target = (string) @readlink($link);
        if (str_starts_with($target, 'socket:')) {
            $sockets[$target] = str_replace('/fd/', '/fdinfo/', $link);
        }
    }
    return $sockets;
}
$daemon = new Daemon();
$before = sockets();
for ($i = 0; $i < 10; $i++) {
    coatcheck_call('server.ping');
}
$new = array_diff_key(sockets(), $before);
var_dump(count($new));
preg_match('/^flags:\s+(\d+)/m', file_get_contents(current($new)), $flags);
var_dump((octdec($flags[1]) & 02000000) !== 0);
?>
--EXPECT--
int(1)
bool(true)
