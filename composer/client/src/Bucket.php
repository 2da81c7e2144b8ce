<?php

declare(strict_types=1);

namespace Coatcheck\Client;

use Coatcheck\Client\Transport\Transport;

/**
 * The values of one bucket: a keyspace of its own inside the tenant, flushed in constant time.
 */
final class Bucket
{
    use Values;

    /**
     * @param string $name empty for the default bucket
     */
    public function __construct(private readonly Transport $transport, public readonly string $name)
    {
    }

    /**
     * Several commands on values in one round trip: [method, params], the bucket is added to each. The answers have
     * the keys of the calls; in the place of one that failed stands its RequestFailed.
     *
     * @param array<array-key, array{0: string, 1?: array<string, mixed>}> $calls
     * @return array<array-key, mixed>
     */
    public function pipeline(array $calls): array
    {
        return $this->askMany(array_map(static fn (array $call) => [$call[0], $call[1] ?? []], $calls));
    }

    private function ask(string $method, array $params): mixed
    {
        return $this->transport->call($method, $params + $this->bucketParam());
    }

    private function askMany(array $calls): array
    {
        $bucket = $this->bucketParam();
        return $this->transport->pipeline(
            array_map(static fn (array $call) => [$call[0], $call[1] + $bucket], $calls)
        );
    }

    /** @return array{bucket?: string} */
    private function bucketParam(): array
    {
        return $this->name === '' ? [] : ['bucket' => $this->name];
    }
}
