<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Tests\Cache;

use Coatcheck\Client\Transport\Transport;

/**
 * Lets somebody else act once, between the first pipeline that has an answer and whatever follows it.
 */
final class InterruptedTransport implements Transport
{
    public bool $wasInterrupted = false;

    public function __construct(private readonly Transport $inner, private readonly \Closure $interruption)
    {
    }

    public function call(string $method, array $params = []): mixed
    {
        return $this->inner->call($method, $params);
    }

    public function pipeline(array $calls): array
    {
        $answers = $this->inner->pipeline($calls);
        if (!$this->wasInterrupted) {
            $this->wasInterrupted = true;
            ($this->interruption)();
        }
        return $answers;
    }

    public function socket(): string
    {
        return $this->inner->socket();
    }
}
