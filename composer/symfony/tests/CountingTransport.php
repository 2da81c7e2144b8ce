<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Tests;

use Coatcheck\Client\Transport\Transport;

/**
 * Writes down what goes to the daemon: each line is one round trip.
 */
final class CountingTransport implements Transport
{
    /** @var list<string> */
    public array $trips = [];

    public function __construct(private readonly Transport $inner)
    {
    }

    public function call(string $method, array $params = []): mixed
    {
        $this->trips[] = $method;
        return $this->inner->call($method, $params);
    }

    public function pipeline(array $calls): array
    {
        $this->trips[] = implode(' ', array_unique(array_column($calls, 0)));
        return $this->inner->pipeline($calls);
    }

    public function socket(): string
    {
        return $this->inner->socket();
    }

    /** @return list<string> the round trips since the last time */
    public function take(): array
    {
        [$trips, $this->trips] = [$this->trips, []];
        return $trips;
    }
}
