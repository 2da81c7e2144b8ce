--TEST--
The same id under two prefixes is two sessions, also where joined strings would be equal
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();
foreach (['' => 'ab', 'a' => 'b', 'a:' => 'b', '0' => 'ab'] as $prefix => $id) {
    ini_set('coatcheck.prefix', (string) $prefix);
    start($id);
    echo json_encode($_SESSION), "\n";
    $_SESSION['prefix'] = "of $prefix";
    session_write_close();
}
var_dump(stored($daemon->socket, 'ab'), stored($daemon->socket, 'b', 'a'), stored($daemon->socket, 'b'));
?>
--EXPECT--
[]
[]
[]
[]
string(17) "prefix|s:3:"of ";"
string(18) "prefix|s:4:"of a";"
NULL
