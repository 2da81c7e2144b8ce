<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Tests\Lock;

use Coatcheck\Client\Exception\TimeoutException;
use Coatcheck\Client\Transport\Transport;

/**
 * Loses the answer of every lock.acquire, as a daemon does that hangs just after the grant.
 */
final class AnswerLosingTransport implements Transport
{
    public function __construct(private readonly Transport $inner)
    {
    }

    public function call(string $method, array $params = []): mixed
    {
        $answer = $this->inner->call($method, $params);
        if ($method === 'lock.acquire') {
            throw TimeoutException::because('the answer was lost', [], true);
        }
        return $answer;
    }

    public function pipeline(array $calls): array
    {
        return $this->inner->pipeline($calls);
    }

    public function socket(): string
    {
        return $this->inner->socket();
    }
}
