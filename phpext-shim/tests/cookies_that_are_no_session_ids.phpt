--TEST--
Cookies that are no ids: an empty one gets a fresh id, others a warning and no session
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
$server = new WebServer(
    ['page.php' => 'ob_start(); $ok = session_start(); $said = ob_get_clean(); $said = str_contains($said, "the session id is empty, longer than") ? " warned" : $said;
        echo $ok ? "started " . preg_replace("/[0-9a-z]{32}/", "a fresh id", session_id()) : "refused", $said;'],
    ['session.use_cookies' => '1']
);
foreach (['' => 'empty', 'good-id' => 'good', 'a%2Fb' => 'slash', '..' => 'dots', 'a%00b' => 'NUL', '%25' => 'percent'] as $cookie => $name) {
    echo "$name: ", $server->request('/page.php', "Cookie: PHPSESSID=$cookie\r\n"), "\n";
}
echo 'long: ', $server->request('/page.php', 'Cookie: PHPSESSID=' . str_repeat('a', 5000) . "\r\n"), "\n";
echo 'array: ', $server->request('/page.php', "Cookie: PHPSESSID[]=x\r\n"), "\n";
var_dump($daemon->locks());
?>
--EXPECT--
empty: started a fresh id
good: started good-id
slash: refused warned
dots: refused warned
NUL: refused warned
percent: refused warned
long: refused warned
array: started a fresh id
int(0)
