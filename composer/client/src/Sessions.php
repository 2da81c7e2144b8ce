<?php

declare(strict_types=1);

namespace Coatcheck\Client;

use Coatcheck\Client\Exception\BusyException;
use Coatcheck\Client\Exception\RefusedException;

/**
 * Session records, with their locks. The same id under two prefixes is two sessions.
 */
trait Sessions
{
    /**
     * Takes the session's lock, waiting in the daemon for up to $waitSeconds, and brings its data. The lock is bound to
     * the connection. Without a token no lock is taken.
     *
     * @param string $token one of Token::random() for each acquisition; the same may ask again
     * @param string $policy what a contended lock means after the wait: fail is a BusyException, unlocked and
     *     readonly bring the data without the lock
     *
     * @throws BusyException by the policy fail
     */
    public function openSession(
        string $id,
        string $token = '',
        float $leaseSeconds = 30.0,
        float $waitSeconds = 0.0,
        string $policy = 'fail',
        string $prefix = '',
        ?string $script = null,
    ): OpenedSession {
        $lock = $token === '' ? [] : [
            'token' => $token,
            'lease_ms' => Duration::lifeMs($leaseSeconds, 'leaseSeconds'),
            'wait_ms' => Duration::waitMs($waitSeconds, 'waitSeconds'),
            'policy' => $policy,
        ];
        $params = self::sessionParams($id, $prefix) + $lock + array_filter(['script' => Script::name($script)]);
        return OpenedSession::from($this->ask('session.open', $params), $this->transport->socket());
    }

    /**
     * Writes the data of a session that openSession() has read, and releases its lock in the same step. With $data null
     * it only begins the session's life anew.
     *
     * @param int $fence of the open
     * @param string $token of the open; empty when it took no lock
     * @return bool false only when $data is null and there is no record: send the data, nothing was released
     *
     * @throws RefusedException when someone else was granted the lock since (superseded), the session was destroyed
     *     (destroyed) or the daemon no longer knows (forgotten); nothing was overwritten
     */
    public function commitSession(
        string $id,
        int $fence,
        ?string $data,
        float $ttlSeconds,
        string $token = '',
        bool $release = true,
        string $prefix = '',
    ): bool {
        $params = self::sessionParams($id, $prefix, $token)
            + ['fence' => $fence, 'ttl_ms' => Duration::lifeMs($ttlSeconds, 'ttlSeconds')]
            + ($data === null ? ['touch' => true] : ['data' => $data])
            + ($release && $token !== '' ? ['release' => true] : []);
        return $this->ask('session.commit', $params)['stored'];
    }

    /** Gives the lock back and writes nothing. @return bool did this token hold it? */
    public function releaseSession(string $id, string $token, string $prefix = ''): bool
    {
        return $this->ask('session.release', self::sessionParams($id, $prefix, $token));
    }

    /**
     * Deletes the session, and refuses every writer who read it before. Needs no lock; releases that of $token.
     *
     * @return bool was there a record?
     */
    public function destroySession(string $id, string $token = '', string $prefix = ''): bool
    {
        return $this->ask('session.destroy', self::sessionParams($id, $prefix, $token));
    }

    public function sessionExists(string $id, string $prefix = ''): bool
    {
        return $this->ask('session.exists', self::sessionParams($id, $prefix));
    }

    /** Ends whoever's lock it is; an id of up to six characters may be the beginning of one. @return bool was it held? */
    public function forceReleaseSession(string $id, string $prefix = ''): bool
    {
        return $this->ask('session.force_release', self::sessionParams($id, $prefix));
    }

    /** @return array<string, string> */
    private static function sessionParams(string $id, string $prefix, string $token = ''): array
    {
        return ['id' => $id]
            + ($prefix === '' ? [] : ['prefix' => $prefix])
            + ($token === '' ? [] : ['token' => $token]);
    }
}
