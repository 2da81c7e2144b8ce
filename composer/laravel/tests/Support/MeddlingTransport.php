<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Tests\Support;

use Coatcheck\Client\Transport\Transport;

/**
 * Has somebody else do something between two requests.
 */
final class MeddlingTransport implements Transport
{
    public bool $hasMeddled = false;

    private int $requests = 0;

    public function __construct(
        private readonly Transport $transport,
        private readonly int $afterRequests,
        private readonly \Closure $meddle,
    ) {
    }

    public function call(string $method, array $params = []): mixed
    {
        $this->meddle();
        return $this->transport->call($method, $params);
    }

    public function pipeline(array $calls): array
    {
        $this->meddle();
        return $this->transport->pipeline($calls);
    }

    public function socket(): string
    {
        return $this->transport->socket();
    }

    private function meddle(): void
    {
        if ($this->requests++ === $this->afterRequests) {
            ($this->meddle)();
            $this->hasMeddled = true;
        }
    }
}
