<?php

declare(strict_types=1);

namespace Coatcheck\Client\Transport;

use Coatcheck\Client\Exception\InvalidArgumentException;
use Coatcheck\Client\Exception\RequestFailed;

/**
 * A way to ask the daemon at one socket. docs/protocol.md has the methods and their parameters.
 *
 * A transport waits as long as its time limit and, on top, as long as the request itself asks the daemon
 * to wait (`wait_ms` of session.open and lock.acquire, `timeout_ms` of kv.wait).
 */
interface Transport
{
    /**
     * One request.
     *
     * @param array<string, mixed> $params
     *
     * @throws RequestFailed when there is no result; each failure is a class of its own
     * @throws InvalidArgumentException when $params hold what cannot be sent
     */
    public function call(string $method, array $params = []): mixed;

    /**
     * Several requests in one round trip. The answers have the keys of the calls; in the place of a call that
     * the daemon answered with an error stands its RequestFailed.
     *
     * @param array<array-key, array{0: string, 1?: array<string, mixed>}> $calls each [method, params]
     * @return array<array-key, mixed>
     *
     * @throws RequestFailed when the daemon could not be asked
     * @throws InvalidArgumentException when a call holds what cannot be sent
     */
    public function pipeline(array $calls): array;

    /** The path of the daemon's socket. */
    public function socket(): string;
}
