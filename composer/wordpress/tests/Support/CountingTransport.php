<?php

declare(strict_types=1);

namespace Coatcheck\WordPress\Tests\Support;

use Coatcheck\Client\Transport\Transport;

/**
 * Counts round trips on their way, keeps what the last one asked, and lets others act before one.
 */
final class CountingTransport implements Transport
{
    public int $roundTrips = 0;

    /** @var list<array{string, array<string, mixed>}> */
    public array $lastCalls = [];

    /** Called once, before the next round trip in which this method is asked for. */
    public ?\Closure $before = null;
    public string $method = '';

    /** @var array{string, array<string, mixed>}|null */
    private ?array $misused = null;

    public function __construct(private readonly Transport $transport)
    {
    }

    public function call(string $method, array $params = []): mixed
    {
        return $this->pipeline([[$method, $params]])[0];
    }

    public function pipeline(array $calls): array
    {
        $this->roundTrips++;
        $this->lastCalls = array_values($calls);
        if ($this->before !== null && in_array($this->method, array_column($calls, 0), true)) {
            $before = $this->before;
            $this->before = null;
            $before();
        }
        foreach ($calls as $key => [$method, $params]) {
            if ($method === ($this->misused[0] ?? null)) {
                $calls[$key] = [$method, $this->misused[1] + $params];
                $this->misused = null;
            }
        }
        return $this->transport->pipeline($calls);
    }

    public function socket(): string
    {
        return $this->transport->socket();
    }

    /** The next call of this method has these params, right or wrong. @param array<string, mixed> $params */
    public function misuse(string $method, array $params): void
    {
        $this->misused = [$method, $params];
    }

    /** @param callable(): mixed $act */
    public function before(string $method, callable $act): void
    {
        $this->method = $method;
        $this->before = $act(...);
    }
}
