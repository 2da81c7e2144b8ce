<?php

/**
 * A request to a PHP process that serves many: what it does with a kept connection is in ?do=.
 */

declare(strict_types=1);

use Coatcheck\Client\Client;

require getenv('COATCHECK_TEST_BOOTSTRAP');

$client = Client::connect(getenv('COATCHECK_TEST_SOCKET'), [
    'transport' => 'stream',
    'persistent' => $_GET['persistent'] ?? true,
]);

/** A lock that no destructor releases. */
$forget = static function (string $name) use ($client): void {
    $client->acquireLock($name, 'token of ' . $name, 30.0, bound: true);
};

echo json_encode(match ($_GET['do']) {
    'pid' => getmypid(),
    'connections' => $client->status()['connections'],
    'forget' => $forget($_GET['lock']),
    'forget and end badly' => [$forget($_GET['lock']), ini_set('memory_limit', '4M'), str_repeat('x', 100 << 20)],
    'two clients' => [
        $forget($_GET['lock']),
        Client::connect(getenv('COATCHECK_TEST_SOCKET'), ['transport' => 'stream'])->lockInfo($_GET['lock']) !== null,
    ][1],
    'hold in a late shutdown function' => register_shutdown_function(static function () use ($client, $forget): void {
        $forget($_GET['lock']);
        exit(json_encode($client->lockInfo($_GET['lock']) !== null)); // no other shutdown function runs
    }),
    'end in the middle' => (static function () use ($client): void {
        // the request ends while the answer is still coming in, and nobody reads the rest of it
        pcntl_async_signals(true);
        pcntl_signal(SIGALRM, static fn () => exit('ended in the middle'));
        pcntl_alarm(1);
        $client->get('key');
    })(),
    'large' => strlen((string) $client->get('large')) . ' ' . var_export($client->set('large', str_repeat('x', 500_000)), true),
    'get' => $client->get($_GET['key']),
});
