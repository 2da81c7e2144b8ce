<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Cache;

use Coatcheck\Client\Client;
use Coatcheck\Client\Exception\RequestFailed;

/**
 * Several requests in one round trip, all of which must succeed.
 *
 * @internal
 */
final class Requests
{
    /** As many as are sent at once. */
    private const AT_ONCE = 1000;

    /**
     * @param list<array{string, array<string, mixed>}> $calls
     * @return list<mixed>
     *
     * @throws RequestFailed the first failure; the other requests were carried out all the same
     */
    public static function sendAll(Client $client, array $calls): array
    {
        $answers = [];
        foreach (array_chunk($calls, self::AT_ONCE) as $part) {
            array_push($answers, ...$client->pipeline($part));
        }
        foreach ($answers as $answer) {
            if ($answer instanceof RequestFailed) {
                throw $answer;
            }
        }
        return $answers;
    }
}
