<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Tests\Support;

use Coatcheck\Client\Transport\Transport;

/**
 * Counts round trips on their way, and keeps what the last one asked.
 */
final class CountingTransport implements Transport
{
    public int $roundTrips = 0;

    /** @var array<string, mixed> of the last single request */
    public array $lastParams = [];

    public function __construct(private readonly Transport $transport)
    {
    }

    public function call(string $method, array $params = []): mixed
    {
        $this->roundTrips++;
        $this->lastParams = $params;
        return $this->transport->call($method, $params);
    }

    public function pipeline(array $calls): array
    {
        $this->roundTrips++;
        return $this->transport->pipeline($calls);
    }

    public function socket(): string
    {
        return $this->transport->socket();
    }
}
