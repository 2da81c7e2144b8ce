<?php

/**
 * Runs one operation on values of 200 bytes again and again in this process.
 *
 *     php kv.php SECONDS OPERATION API DIR
 *
 * OPERATION is get, get16 (16 values, which is one by one unless the API's name says otherwise), set, incr or lock (set
 * if absent, and delete if it still holds my token). API is coatcheck, "coatcheck, pipeline", phpredis, "phpredis,
 * pipeline", memcached or APCu. DIR has the servers' sockets. Prints JSON: each operation's time in nanoseconds, and
 * how many gave an unexpected answer.
 */

declare(strict_types=1);

const KEYS = 64;
const MANY = 16;
const WARM_UP = 2 * KEYS;
const DELETE_IF_EQUAL = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** @return array<string, callable(string, string): bool> does an operation and says whether the answer is right */
function coatcheckOperations(): array
{
    return [
        'set' => fn (string $key, string $value): bool => coatcheck_kv_set($key, $value) === true,
        'get' => fn (string $key, string $value): bool => coatcheck_kv_get($key) === $value,
        'get16' => function (string $key, string $value): bool {
            for ($i = 0; $i < MANY; $i++) {
                $answers[] = coatcheck_kv_get($key);
            }
            return $answers === array_fill(0, MANY, $value);
        },
        'incr' => fn (string $key): bool => coatcheck_kv_incr($key . 'n') > 0,
        'lock' => fn (string $key, string $value): bool => coatcheck_kv_setnx($key . 'l', $value, 30.0)
            && coatcheck_kv_del_if_eq($key . 'l', $value),
    ];
}

/** @return array<string, callable(string, string): bool> */
function coatcheckPipelineOperations(): array
{
    return [
        'set' => fn (string $key, string $value): bool => coatcheck_kv_set($key, $value) === true,
        'get16' => fn (string $key, string $value): bool => coatcheck_pipeline(
            array_fill(0, MANY, ['kv.get', ['key' => $key]]),
        ) === array_fill(0, MANY, $value),
    ];
}

function redis(string $dir): Redis
{
    $redis = new Redis();
    $redis->connect($dir . '/redis.sock');
    return $redis;
}

/** @return array<string, callable(string, string): bool> */
function phpredisPipelineOperations(string $dir): array
{
    $redis = redis($dir);
    return [
        'set' => fn (string $key, string $value): bool => $redis->set($key, $value),
        'get16' => function (string $key, string $value) use ($redis): bool {
            $pipeline = $redis->multi(Redis::PIPELINE);
            for ($i = 0; $i < MANY; $i++) {
                $pipeline->get($key);
            }
            return $pipeline->exec() === array_fill(0, MANY, $value);
        },
    ];
}

/** @return array<string, callable(string, string): bool> */
function phpredisOperations(string $dir): array
{
    $redis = redis($dir);
    $sha = $redis->script('load', DELETE_IF_EQUAL);
    return [
        'set' => fn (string $key, string $value): bool => $redis->set($key, $value),
        'get' => fn (string $key, string $value): bool => $redis->get($key) === $value,
        'get16' => function (string $key, string $value) use ($redis): bool {
            for ($i = 0; $i < MANY; $i++) {
                $answers[] = $redis->get($key);
            }
            return $answers === array_fill(0, MANY, $value);
        },
        'incr' => fn (string $key): bool => $redis->incr($key . 'n') > 0,
        'lock' => fn (string $key, string $value): bool => $redis->set($key . 'l', $value, ['nx', 'ex' => 30])
            && $redis->evalSha($sha, [$key . 'l', $value], 1) === 1,
    ];
}

/** @return array<string, callable(string, string): bool> */
function memcachedOperations(string $dir): array
{
    $memcached = new Memcached();
    $memcached->setOptions([Memcached::OPT_BINARY_PROTOCOL => true, Memcached::OPT_COMPRESSION => false]);
    $memcached->addServer($dir . '/memcached.sock', 0);
    return [
        'set' => fn (string $key, string $value): bool => $memcached->set($key, $value),
        'get' => fn (string $key, string $value): bool => $memcached->get($key) === $value,
        'incr' => fn (string $key): bool => $memcached->increment($key . 'n', 1, 1) > 0,
    ];
}

/** @return array<string, callable(string, string): bool> */
function apcuOperations(): array
{
    return [
        'set' => fn (string $key, string $value): bool => apcu_store($key, $value),
        'get' => fn (string $key, string $value): bool => apcu_fetch($key) === $value,
        'incr' => fn (string $key): bool => apcu_inc($key . 'n') > 0,
    ];
}

[, $seconds, $name, $api, $dir] = $argv;
$operations = match ($api) {
    'coatcheck' => coatcheckOperations(),
    'coatcheck, pipeline' => coatcheckPipelineOperations(),
    'phpredis' => phpredisOperations($dir),
    'phpredis, pipeline' => phpredisPipelineOperations($dir),
    'memcached' => memcachedOperations($dir),
    'APCu' => apcuOperations(),
};
$operation = $operations[$name];
$value = substr(base64_encode(random_bytes(150)), 0, 200);
for ($i = 0; $i < KEYS; $i++) {
    $operations['set']("bench$i", $value);
}

$times = [];
$wrong = 0;
$end = hrtime(true) + (int) ((float) $seconds * 1e9);
for ($i = 0; ($began = hrtime(true)) < $end || $i <= WARM_UP; $i++) {
    $right = $operation('bench' . $i % KEYS, $value);
    if ($i >= WARM_UP && count($times) < 200_000) {
        $times[] = hrtime(true) - $began;
    }
    $wrong += $right ? 0 : 1;
}

echo json_encode(['times_ns' => $times, 'wrong' => $wrong], JSON_THROW_ON_ERROR);
