<?php

/**
 * Asks a running demo for its page and for 20 parallel requests, and fails unless 20 of 20 are kept.
 *
 *     php docker/check.php http://127.0.0.1:8131
 */

declare(strict_types=1);

function fail(string $reason): never
{
    fwrite(STDERR, "check.php: $reason\n");
    exit(1);
}

/** @param array<string, mixed> $options of the http stream context */
function request(string $url, array $options = []): ?string
{
    $body = @file_get_contents($url, false, stream_context_create(['http' => $options + ['timeout' => 60]]));

    return $body === false ? null : $body;
}

/** Waits for the containers to get ready. */
function requestWithin(int $seconds, string $url): string
{
    $end = time() + $seconds;
    do {
        $body = request($url);
        if ($body !== null) {
            return $body;
        }
        usleep(250_000);
    } while (time() < $end);
    fail("$url: " . (error_get_last()['message'] ?? 'no answer'));
}

$demo = $argv[1] ?? fail('usage: php docker/check.php URL');

str_contains(requestWithin(60, "$demo/"), 'Your session') || fail('the page does not show the session');

$answer = request("$demo/fanout.php", [
    'method' => 'POST',
    'header' => ['Accept: application/json', 'Content-Type: application/x-www-form-urlencoded'],
    'content' => 'locking=on',
]) ?? fail("$demo/fanout.php: " . (error_get_last()['message'] ?? 'no answer'));
$outcome = json_decode($answer, true, 16, JSON_THROW_ON_ERROR);

printf("%d of %d kept, %d answers were 200\n", $outcome['kept'], $outcome['sent'], $outcome['ok']);
if ($outcome['kept'] !== 20 || $outcome['ok'] !== 20) {
    fail('not all of the 20 requests were kept');
}
