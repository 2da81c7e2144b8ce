--TEST--
A session lock whose grant or release was never answered is released in front of the next request of the process
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';

/** What arrived since the last look; a release by another token than that of the id's last open is named. */
function arrived(FakeDaemon $fake): string
{
    static $seen = 0, $tokens = [];
    $said = [];
    foreach (array_slice($fake->messages(), $seen) as $message) {
        $seen++;
        if (!is_array($message)) {
            continue;
        }
        [, , $method, $params] = $message;
        if ($method === 'session.open') {
            $tokens[$params['id']] = $params['token'];
        }
        $strange = $method === 'session.release' && ($tokens[$params['id']] ?? '') !== $params['token'];
        $prefix = ($params['prefix'] ?? '') === '' ? '' : " of $params[prefix]";
        $said[] = $method . (isset($params['id']) ? " $params[id]$prefix" : '') . ($strange ? ' by another token' : '');
    }
    return implode(', ', $said) . "\n";
}

$trouble = scratch_folder() . '/trouble';
$fake = new FakeDaemon(function (array $request) use ($trouble) {
    $what = is_file($trouble) ? file_get_contents($trouble) : '';
    return match (true) {
        !str_starts_with($request[2], 'session.'), $what === '' => FakeDaemon::session($request),
        $what === 'close' => null,
        $what === 'silence' => '',
        default => FakeDaemon::error($request, $what, 'no'),
    };
});
use_coatcheck_sessions();
ini_set('coatcheck.connect_timeout_ms', '50');
ini_set('coatcheck.timeout_ms', '2000');
ini_set('coatcheck.lock_wait', '0');
$is = fn (string $what) => file_put_contents($trouble, $what);
$quietly = fn (callable $run) => @$run();

echo "no answer to the open: "; // and none to the release that is tried at the close
$is('close');
var_dump($quietly(fn () => start('opened')));
echo arrived($fake);
$is('');
echo "the same id again: ";
var_dump(start('opened'), session_write_close());
echo arrived($fake);
coatcheck_call('server.ping');
echo 'and no more of it: ', arrived($fake);

echo "no answer to the write, in a prefix: ";
ini_set('coatcheck.prefix', 'shop');
start('written');
$_SESSION['n'] = 1;
$is('silence');
var_dump($quietly(session_write_close(...)));
ini_set('coatcheck.prefix', '');
$is('');
coatcheck_call('server.ping');
echo arrived($fake);

echo "a daemon that cannot do it is asked again: ";
start('late');
$is('close');
$quietly(session_write_close(...));
$is('unavailable');
coatcheck_call('server.ping');
$is('internal');
coatcheck_call('server.ping');
coatcheck_call('server.ping');
$is('');
echo "\n", arrived($fake);

echo "a forked child does not do it: ";
start('parental');
$is('close');
$quietly(session_write_close(...));
$is('');
arrived($fake);
pcntl_waitpid(in_child(fn () => [ob_clean(), coatcheck_call('server.ping')]), $status);
echo arrived($fake);
coatcheck_call('server.ping');
echo 'its parent does: ', arrived($fake);

echo "no more than eight are kept: ";
$is('close');
for ($i = 1; $i <= 10; $i++) {
    $quietly(fn () => start("many-$i")); // the releases in front of it are all that the daemon reads
}
$is('');
arrived($fake);
coatcheck_call('server.ping');
echo substr_count(arrived($fake), 'session.release'), "\n";

echo "what was never sent is not kept: ";
$fake->kill();
for ($i = 1; $i <= 3; $i++) {
    $quietly(fn () => start("never-$i"));
}
$another = new FakeDaemon(FakeDaemon::session(...));
rename($another->socket, $fake->socket);
ini_set('coatcheck.socket', $fake->socket);
coatcheck_call('server.ping');
echo implode(', ', $another->methods()), "\n";
?>
--EXPECT--
no answer to the open: bool(false)
hello, session.open opened, hello, session.open opened, hello, session.release opened, hello, session.release opened
the same id again: bool(true)
bool(true)
hello, session.release opened, session.open opened, session.commit opened
and no more of it: server.ping
no answer to the write, in a prefix: bool(true)
session.open written of shop, session.commit written of shop, hello, session.release written of shop, server.ping
a daemon that cannot do it is asked again: 
session.open late, session.commit late, hello, session.commit late, hello, session.release late, hello, session.release late, hello, session.release late, server.ping, session.release late, server.ping, server.ping
a forked child does not do it: hello, server.ping
its parent does: hello, session.release parental, server.ping
no more than eight are kept: 8
what was never sent is not kept: connect, hello, server.ping
