<?php

// Laravel's own Redis cache and lock, unchanged. The argument is the endpoint's socket.

declare(strict_types=1);

use Illuminate\Cache\RedisStore;
use Illuminate\Cache\Repository;
use Illuminate\Container\Container;
use Illuminate\Contracts\Cache\LockTimeoutException;
use Illuminate\Redis\RedisManager;

require 'Illuminate/Container/autoload.php';
require 'Illuminate/Cache/autoload.php';
require 'Illuminate/Redis/autoload.php';
require __DIR__ . '/check.php';

$redis = new RedisManager(new Container(), 'phpredis', [
    'default' => ['host' => $argv[1], 'port' => 0, 'database' => 1],
    'options' => ['prefix' => 'shop_'],
]);
$store = new RedisStore($redis, 'cache');
$cache = new Repository($store);

same('put', true, $cache->put('k', ['a' => 1], 100));
same('get', ['a' => 1], $cache->get('k'));
same('get of nothing', 'default', $cache->get('missing', 'default'));
same('putMany', true, $cache->putMany(['x' => 'one', 'y' => [2]], 100));
same('many', ['x' => 'one', 'y' => [2], 'z' => null], $cache->many(['x', 'y', 'z']));
same('add of a new key', true, $cache->add('added', 'first', 100));
same('add of an old key', false, $cache->add('added', 'second', 100));
same('after add', 'first', $cache->get('added'));
same('ttl after add', 100, $redis->connection()->ttl('cache:added'));
same('forever', true, $cache->forever('n', 5));
same('increment', 7, $cache->increment('n', 2));
same('decrement', 6, $cache->decrement('n'));
same('increment of nothing', 1, $cache->increment('new'));
same('remember', 'made', $cache->remember('r', 100, fn () => 'made'));
same('pull', 'made', $cache->pull('r'));
same('forget', true, $cache->forget('x'));
same('forget of nothing', false, $cache->forget('x'));

$lock = $store->lock('job', 100);
same('a lock', true, $lock->get());
same('its ttl', 100, $redis->connection()->ttl('cache:job'));
$other = $store->lock('job', 100);
same('a second one', false, $other->get());
same('release by a stranger', false, $other->release());
same('still held', false, $other->get());
same('release', true, $lock->release());
same('release again', false, $lock->release());
same('after release', true, $other->get());
same('release by another process', true, $store->restoreLock('job', $other->owner())->release());
$forever = $store->lock('forever');
same('a lock without end', true, $forever->get());
same('its ttl', -1, $redis->connection()->ttl('cache:forever'));
try {
    $store->lock('forever', 10)->block(0);
    same('block', 'an exception', 'none');
} catch (LockTimeoutException) {
}
$store->lock('forever')->forceRelease();
same('after forceRelease', true, $store->lock('forever', 10)->get(fn () => true));

$results = $redis->connection()->transaction(function ($multi) {
    $multi->set('t', 'v');
    $multi->incr('counter');
});
same('transaction', [true, 1], $results);
same('flush', true, $store->flush());
same('after flush', null, $cache->get('k'));
echo 'ok';
