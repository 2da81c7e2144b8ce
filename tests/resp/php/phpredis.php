<?php

// What phpredis sends for its common methods is answered as it expects. The argument is the endpoint's socket.

declare(strict_types=1);

require __DIR__ . '/check.php';

$redis = new Redis();
same('connect', true, $redis->connect($argv[1]));
same('ping', true, $redis->ping());
same('echo', 'hi', $redis->echo('hi'));
same('select', true, $redis->select(2));
same('flushDB', true, $redis->flushDB());
same('set', true, $redis->set('k', 'v'));
same('get', 'v', $redis->get('k'));
same('get of nothing', false, $redis->get('missing'));
same('set nx', false, $redis->set('k', 'w', ['nx', 'ex' => 100]));
same('set xx', true, $redis->set('k', 'w', ['xx', 'px' => 100000]));
same('ttl', 100, $redis->ttl('k'));
same('setex', true, $redis->setex('s', 100, 'v'));
same('psetex', true, $redis->psetex('s', 100000, 'v'));
same('setnx', false, $redis->setnx('s', 'v'));
same('getSet', 'v', $redis->getSet('s', 'w'));
same('incr', 1, $redis->incr('n'));
same('incrBy', 11, $redis->incrBy('n', 10));
same('decr', 10, $redis->decr('n'));
same('incrByFloat', 10.5, $redis->incrByFloat('n', 0.5));
same('append', 2, $redis->append('s', 'x'));
same('strlen', 2, $redis->strlen('s'));
same('mset', true, $redis->mset(['a' => '1', 'b' => '2']));
same('mget', ['1', false, '2'], $redis->mget(['a', 'c', 'b']));
same('msetnx', false, $redis->msetnx(['a' => '3', 'z' => '4']));
same('exists', 2, $redis->exists('a', 'b', 'c'));
same('type', Redis::REDIS_STRING, $redis->type('a'));
same('expire', true, $redis->expire('a', 50));
same('expireAt', true, $redis->expireAt('a', time() + 50));
same('pexpire', true, $redis->pexpire('a', 50000));
same('persist', true, $redis->persist('a'));
same('rename', true, $redis->rename('a', 'r'));
same('del', 2, $redis->del('r', 'b'));
same('unlink', 1, $redis->unlink('s'));
same('hSet', 1, $redis->hSet('h', 'f', 'v'));
same('hMSet', true, $redis->hMSet('h', ['g' => 'w', 'n' => 1]));
same('hGet', 'v', $redis->hGet('h', 'f'));
same('hMGet', ['f' => 'v', 'x' => false], $redis->hMGet('h', ['f', 'x']));
same('hIncrBy', 3, $redis->hIncrBy('h', 'n', 2));
same('hGetAll', ['f' => 'v', 'g' => 'w', 'n' => '3'], $redis->hGetAll('h'));
same('hLen', 3, $redis->hLen('h'));
same('hExists', true, $redis->hExists('h', 'f'));
same('hDel', 2, $redis->hDel('h', 'f', 'g'));
same('type of a hash', Redis::REDIS_HASH, $redis->type('h'));
same('multi', [true, 'v', 1], $redis->multi()->set('m', 'v')->get('m')->del('m')->exec());
same('pipeline', [true, 'v', 1], $redis->pipeline()->set('m', 'v')->get('m')->del('m')->exec());
same('rawCommand', 0, $redis->rawCommand('DELIFEQ', 'k', 'other'));
same('rawCommand', 1, $redis->rawCommand('DELIFEQ', 'k', 'w'));
same('dbSize', 2, $redis->dbSize());
same('keys', ['h'], $redis->keys('h*'));
$found = [];
$cursor = null;
while (($keys = $redis->scan($cursor, '*', 1000)) !== false) {
    $found = array_merge($found, $keys);
}
sort($found);
same('scan', ['h', 'n'], $found);
same('info', 0, $redis->info()['connected_slaves']);
same('client', true, $redis->client('setname', 'me'));
same('client', 'me', $redis->client('getname'));
same('an unknown command', false, $redis->lPush('list', 'v'));
$error = rtrim($redis->getLastError(), " \0");
same('its error', "ERR unknown command 'LPUSH', with args beginning with: 'list' 'v'", $error);

$redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_PHP);
$redis->setOption(Redis::OPT_PREFIX, 'app:');
same('set of an array', true, $redis->set('array', ['a' => [1, 2.5, null]]));
same('get of an array', ['a' => [1, 2.5, null]], $redis->get('array'));
same('flushAll', true, $redis->flushAll());
same('close', true, $redis->close());
echo 'ok';
