--TEST--
Strict mode: a session that exists costs two round trips as well, a new one its creation
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(fn (array $request) => $request[2] === 'session.open'
    ? FakeDaemon::result($request, ['data' => new Bin('n|i:1;'), 'found' => $request[3]['id'] === 'known', 'fence' => 7, 'locked' => true, 'waited_ms' => 0])
    : FakeDaemon::session($request));
use_coatcheck_sessions();
ini_set('session.use_strict_mode', '1');
$methods = function () use ($fake): string {
    static $seen = 2;
    $new = array_slice($fake->methods(), $seen);
    $seen += count($new);
    return implode(' ', $new);
};
start('known');
$_SESSION['n']++;
session_write_close();
echo $methods(), "\n";
start('unknown');
session_write_close();
echo $methods(), "\n";
session_id('');
session_start();
$_SESSION['n'] = 1;
echo $methods(), "\n";
session_regenerate_id(true);
echo $methods(), "\n";
session_write_close();
echo $methods(), "\n";
?>
--EXPECT--
session.open session.commit
session.open session.release session.exists session.open session.commit
session.exists session.open
session.destroy session.exists session.open
session.commit
