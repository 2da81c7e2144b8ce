<?php

declare(strict_types=1);

namespace Coatcheck\Laravel;

use Coatcheck\Client\Client;

/**
 * The clients of an application, one for each DSN: cache, locks, sessions and commands share a connection.
 */
final class Clients
{
    /** @var array<string, Client> */
    private array $clients = [];

    /**
     * @param string $defaultDsn the socket's path, or coatcheck:///path?options
     * @param array<string, mixed> $options of Client::connect()
     */
    public function __construct(private readonly string $defaultDsn, private readonly array $options = [])
    {
    }

    public function get(?string $dsn = null): Client
    {
        $dsn ??= $this->defaultDsn;
        return $this->clients[$dsn] ??= Client::connect($dsn, $this->options);
    }
}
