<?php

// Takes a lock and ends without releasing it, either by itself or by a signal that the test sends.

declare(strict_types=1);

$result = coatcheck_call('lock.acquire', [
    'name' => $_GET['name'], 'token' => $_GET['token'], 'bound' => $_GET['bound'] === '1', 'lease_ms' => 60_000,
]);
answer(['fence' => $result['fence'], 'pid' => getmypid()]);
stay();
