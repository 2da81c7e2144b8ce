--TEST--
Replies that chance has damaged: each is an answer or an error, none a crash, and the next whole reply is understood
--FILE--
<?php
/*
 * COATCHECK_FUZZ_ROUNDS says how many replies (400 if it is not set), COATCHECK_FUZZ_SEED which; tools/fuzz.sh sets both.
 */
require __DIR__ . '/fake_daemon.inc';

const HOLDER = ['pid' => 7, 'sapi' => 'fpm', 'script' => '/a.php', 'held_ms' => 5];
const OPENED = ['data' => 'n|i:1;', 'found' => true, 'fence' => 7, 'locked' => true, 'waited_ms' => 0, 'holder' => HOLDER];

/** A reply as the real daemon may give it. */
function whole_reply(array $request): string
{
    return match (mt_rand(0, 6)) {
        0 => FakeDaemon::error($request, 'busy', 'someone has it', ['reason' => 'wait_over', 'holder' => HOLDER]),
        1 => FakeDaemon::error($request, 'refused', 'no', ['reason' => 'superseded']),
        2 => FakeDaemon::result($request, OPENED),
        3 => FakeDaemon::result($request, ['stored' => true, 'released' => true]),
        4 => FakeDaemon::result($request, [0, ['a', 'b', str_repeat('c', 300)], null, 1.5, -1, true]),
        5 => FakeDaemon::result($request, mt_rand(-70000, 70000)),
        6 => FakeDaemon::result($request, str_repeat('x', mt_rand(0, 70000))),
    };
}

/** Damages bytes and, in half of the cases, has the frame's length right all the same. */
function damage(string $frame): string
{
    for ($i = mt_rand(1, 4); $i > 0 && $frame !== ''; $i--) {
        $at = mt_rand(0, min(200, strlen($frame) - 1));
        $frame = match (mt_rand(0, 4)) {
            0 => substr_replace($frame, chr(mt_rand(0, 255)), $at, 1),
            1 => substr($frame, 0, $at + 1),
            2 => substr_replace($frame, chr(mt_rand(0xc0, 0xdf)) . random(mt_rand(0, 9)), $at, 0),
            3 => substr_replace($frame, substr($frame, $at, mt_rand(1, 30)), mt_rand(0, $at), 0),
            4 => substr_replace($frame, '', $at, mt_rand(1, 9)),
        };
    }
    return mt_rand(0, 1) === 0 ? $frame : pack('N', strlen($body = substr($frame, 4))) . $body;
}

function random(int $length): string
{
    return implode('', array_map(fn () => chr(mt_rand(0, 255)), range(0, $length)));
}

/** Answers hello and damages what follows, in each connection; unless the request is for the key "whole". */
function serve($server): never
{
    while (true) {
        $stream = stream_socket_accept($server, -1);
        while (($message = Wire::read($stream)) !== null) {
            if ($message[2] === 'hello') {
                fwrite($stream, FakeDaemon::result($message, FakeDaemon::HELLO));
            } elseif ($message[2] === 'session.release' || ($message[3]['key'] ?? '') === 'whole') {
                fwrite($stream, FakeDaemon::result($message, 'whole')); // an overdue release goes before it
            } elseif ($message[0] === 0) {
                @fwrite($stream, damage(whole_reply($message)));
                break; // a reply that is cut short is over
            }
        }
        fclose($stream);
    }
}

$rounds = (int) (getenv('COATCHECK_FUZZ_ROUNDS') ?: 400);
$seed = (int) (getenv('COATCHECK_FUZZ_SEED') ?: 20261);
$socket = scratch_folder() . '/fuzz.sock';
$server = stream_socket_server("unix://$socket");
$child = in_child(function () use ($server, $seed) {
    mt_srand($seed);
    serve($server);
});
at_end(fn () => posix_kill($child, SIGKILL));
ini_set('coatcheck.socket', $socket);
ini_set('coatcheck.lock_wait', '0');
ini_set('coatcheck.timeout_ms', '2000');
use_coatcheck_sessions();

$calls = [
    fn () => coatcheck_kv_get('k'),
    fn () => coatcheck_call('session.open', ['id' => 'x']),
    fn () => coatcheck_kv_incr('k'),
    fn () => coatcheck_pipeline([['kv.get', ['key' => 'a']], ['kv.get', ['key' => 'b']]]),
    fn () => ephpm_kv_ttl('k'),
    fn () => coatcheck_kv_exists('k'),
    fn () => coatcheck_kv_mget(['a', 'b']),
    fn () => [start('fuzz'), session_write_close()],
    fn () => [start('fuzz'), session_destroy()],
];
$memory = memory_get_usage();
$answers = $errors = 0;
for ($i = 0; $i < $rounds; $i++) {
    try {
        @$calls[$i % count($calls)]();
        $answers++;
    } catch (Coatcheck\Exception) {
        $errors++;
    }
    if (session_status() === PHP_SESSION_ACTIVE) {
        @session_abort();
    }
    $_SESSION = [];
    if ($i % 10 === 0 && coatcheck_kv_get('whole') !== 'whole') {
        exit("not understood after reply $i of seed $seed\n");
    }
}
gc_collect_cycles();
echo $answers > 0 && $errors > 0 ? "answers and errors\n" : "$answers answers, $errors errors\n";
echo memory_get_usage() - $memory < 100_000 ? "little memory\n" : "much memory\n";
?>
--EXPECT--
answers and errors
little memory
