<?php

/**
 * How long a get and a locked session cycle take over the client's transports, against the extension and phpredis.
 *
 *     php tests/packages/bench.php [ROUNDS]
 *
 * Each measurement is a PHP process of its own; rounds of all contenders take turns, so that whatever else the machine does
 * strikes all of them. Prints medians as ratios. Needs bin/coatcheck, the built extension, redis-server and phpredis.
 */

declare(strict_types=1);

require __DIR__ . '/bootstrap.php';

use Coatcheck\Client\Client;
use Coatcheck\Tests\Packages\Daemon;

const CYCLES = 2000;
const VALUE_BYTES = 200;

/** @return callable(): mixed one step of what is measured */
function step(string $what, string $with, string $socket, string $redis): callable
{
    if ($what === 'cycle') {
        return sessionStep($with, $socket);
    }
    if ($with === 'phpredis') {
        $connection = new Redis();
        $connection->connect($redis);
        $connection->set('key', str_repeat('v', VALUE_BYTES));
        return static fn () => $connection->get('key');
    }
    $options = $with === 'extension' ? ['transport' => 'extension'] : ['transport' => 'stream', 'codec' => $with];
    $client = Client::connect($socket, $options);
    $client->set('key', str_repeat('v', VALUE_BYTES));
    return $with === 'extension' ? static fn () => coatcheck_kv_get('key') : static fn () => $client->get('key');
}

/** @return callable(): void */
function sessionStep(string $with, string $socket): callable
{
    if (in_array($with, ['auto', 'plain'], true)) {
        Coatcheck\Session\register(['socket' => $socket, 'transport' => 'stream', 'codec' => $with]);
    }
    return static function (): void {
        session_id('benchmark');
        session_start();
        $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
        session_write_close();
    };
}

/** Microseconds of one step: the median of CYCLES. */
function measure(callable $step): float
{
    $times = [];
    for ($i = 0; $i < CYCLES; $i++) {
        $from = hrtime(true);
        $step();
        $times[] = hrtime(true) - $from;
    }
    sort($times);
    return $times[intdiv(CYCLES, 2)] / 1000;
}

function child(string $what, string $with, string $socket, string $redis): float
{
    $ini = [
        'extension' => dirname(__DIR__, 2) . '/phpext-shim/modules/coatcheck.so',
        'coatcheck.socket' => $socket,
        'session.use_cookies' => '0',
        'session.cache_limiter' => '',
    ];
    $ini += match (true) {
        $what === 'get' => [],
        $with === 'extension' => ['session.save_handler' => 'coatcheck', 'session.save_path' => ''],
        $with === 'phpredis' => [
            'session.save_handler' => 'redis', 'session.save_path' => "unix://$redis", 'redis.session.locking_enabled' => '1',
        ],
        default => [],
    };
    $command = [PHP_BINARY];
    foreach ($ini as $name => $value) {
        array_push($command, '-d', "$name=\"$value\"");
    }
    $process = proc_open([...$command, __FILE__, 'child', $what, $with, $socket, $redis], [1 => ['pipe', 'w']], $pipes);
    return (float) stream_get_contents($pipes[1]);
}

if (($argv[1] ?? '') === 'child') {
    ob_start();
    $microseconds = measure(step(...array_slice($argv, 2)));
    ob_end_clean();
    exit(sprintf('%.3f', $microseconds));
}

$directory = sys_get_temp_dir() . '/coatcheck-bench-' . getmypid();
mkdir($directory);
putenv("COATCHECK_TEST_DIR=$directory");
putenv('COATCHECK_TEST_DAEMON=' . dirname(__DIR__, 2) . '/bin/coatcheck');
$daemon = Daemon::start();
$redis = "$directory/redis.sock";
$server = proc_open(['redis-server', '--port', '0', '--unixsocket', $redis, '--save', '', '--dir', $directory], [
    1 => ['file', '/dev/null', 'w'],
], $pipes);
Daemon::eventually('redis-server listens', fn () => @stream_socket_client("unix://$redis") !== false);

$rounds = (int) ($argv[1] ?? 9);
foreach (['get', 'cycle'] as $what) {
    $times = [];
    for ($round = 0; $round < $rounds; $round++) {
        foreach (['phpredis', 'extension', 'auto', 'plain'] as $with) {
            $times[$with][] = child($what, $with, $daemon->socket, $redis);
        }
    }
    foreach ($times as $with => $values) {
        sort($values);
        $times[$with] = $values[intdiv(count($values), 2)];
    }
    foreach ($times as $with => $time) {
        printf(
            "%-6s %-10s %7.1f us   %.2f of phpredis   %.2f of the extension\n",
            $what,
            $with,
            $time,
            $time / $times['phpredis'],
            $time / $times['extension'],
        );
    }
}
proc_terminate($server);
proc_close($server);
unset($daemon);
array_map(unlink(...), array_filter(glob("$directory/{,*/}*", GLOB_BRACE), static fn ($path) => !is_dir($path)));
array_map(rmdir(...), [...glob("$directory/*", GLOB_ONLYDIR), $directory]);
