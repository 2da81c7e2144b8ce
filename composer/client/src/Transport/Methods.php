<?php

declare(strict_types=1);

namespace Coatcheck\Client\Transport;

use Coatcheck\Client\Exception\BusyException;
use Coatcheck\Client\Exception\RefusedException;
use Coatcheck\Client\Exception\RequestFailed;

/**
 * What a transport must know of a method: may it be sent twice, does it ask the daemon to wait, does it
 * leave a bound lock, does it end one.
 *
 * @internal
 */
final class Methods
{
    /**
     * The methods that may be sent twice. Reading twice is harmless. session.open and lock.acquire carry their
     * token: the second gets the grant of the first. session.commit carries token and fence: if the first landed,
     * the second writes the same bytes again, unless another request got the lock in between, and then it is
     * refused and nothing is lost. session.release and session.destroy reach the same state twice, lock.renew and
     * kv.expire set the same lease again. All others are sent once: a kv.set could undo what another wrote in
     * between, the second answer of a lock.release would deny the first.
     */
    private const RESENDABLE = [
        'session.open' => true, 'session.commit' => true, 'session.release' => true, 'session.exists' => true,
        'session.destroy' => true, 'kv.get' => true, 'kv.mget' => true, 'kv.exists' => true, 'kv.ttl' => true,
        'kv.strlen' => true, 'kv.scan' => true, 'kv.wait' => true, 'kv.expire' => true, 'kv.persist' => true,
        'lock.acquire' => true, 'lock.renew' => true, 'lock.info' => true, 'lock.list' => true,
        'server.ping' => true, 'server.status' => true, 'server.locks' => true, 'server.sessions' => true,
    ];

    private const WAITS = ['session.open' => 'wait_ms', 'lock.acquire' => 'wait_ms', 'kv.wait' => 'timeout_ms'];

    private const MAX_WAIT_MS = 24 * 3600 * 1000;

    public static function isResendable(string $method): bool
    {
        return isset(self::RESENDABLE[$method]);
    }

    /**
     * How long the request itself asks the daemon to wait.
     *
     * @param array<string, mixed> $params
     */
    public static function requestedWaitSeconds(string $method, array $params): float
    {
        $waitMs = isset(self::WAITS[$method]) ? ($params[self::WAITS[$method]] ?? 0) : 0;
        return is_int($waitMs) ? min(max(0, $waitMs), self::MAX_WAIT_MS) / 1000 : 0.0;
    }

    /**
     * May this request leave a lock that belongs to the connection?
     *
     * @param array<string, mixed> $params
     */
    public static function mayBind(string $method, array $params): bool
    {
        return isset($params['token'])
            && ($method === 'session.open' || ($method === 'lock.acquire' && ($params['bound'] ?? false) === true));
    }

    /**
     * Does this answer say that the token's lock is free? A refused commit releases as well, a touch that found
     * nothing does not.
     *
     * @param array<string, mixed> $params
     */
    public static function unbinds(string $method, array $params, mixed $answer): bool
    {
        return match ($method) {
            'session.release', 'session.destroy', 'lock.release' => !$answer instanceof RequestFailed,
            'session.commit' => ($params['release'] ?? false) === true
                && ($answer instanceof RefusedException || (is_array($answer) && ($answer['released'] ?? false) === true)),
            'session.open' => $answer instanceof BusyException
                || (is_array($answer) && ($answer['locked'] ?? true) === false),
            'lock.acquire' => $answer instanceof BusyException,
            default => false,
        };
    }
}
