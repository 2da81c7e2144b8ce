--TEST--
One process and many sockets: a connection for each, but never more than 16 at once
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
$links = [];
for ($i = 0; $i < 40; $i++) {
    symlink($daemon->socket, $links[] = scratch_folder() . "/tenant-$i.sock");
}
coatcheck_call('server.ping');
$before = open_descriptors();
foreach ([...$links, ...$links] as $link) {
    ini_set('coatcheck.socket', $link);
    coatcheck_call('server.ping');
}
var_dump(open_descriptors() - $before);
?>
--EXPECT--
int(15)
