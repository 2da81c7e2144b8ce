<?php

declare(strict_types=1);

namespace Coatcheck\Client;

use Coatcheck\Client\Exception\RequestFailed;

/**
 * What the daemon says about itself.
 */
trait Server
{
    /** @throws RequestFailed when the daemon does not answer */
    public function ping(): void
    {
        $this->ask('server.ping', []);
    }

    /** @return array<string, mixed> version, uptime_ms, connections, sessions, locks, memory, ... */
    public function status(): array
    {
        return $this->ask('server.status', []);
    }

    /**
     * Every held lock of this tenant, sessions' included; of tokens and session ids the beginning only.
     *
     * @return list<array<string, mixed>>
     */
    public function heldLocks(int $limit = 1000): array
    {
        return $this->ask('server.locks', ['limit' => $limit]);
    }

    /**
     * The sessions of this tenant whose id begins so; of ids the beginning only.
     *
     * @param string $id up to six characters, or a whole id
     * @return list<array<string, mixed>>
     */
    public function sessions(string $id = '', int $limit = 1000): array
    {
        return $this->ask('server.sessions', ($id === '' ? [] : ['id' => $id]) + ['limit' => $limit]);
    }
}
