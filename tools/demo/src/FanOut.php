<?php

declare(strict_types=1);

namespace Coatcheck\Demo;

/**
 * Sends many requests at the same time and collects the answers.
 *
 * A browser opens about six connections to one host, so it cannot show twenty requests at once;
 * this does, over plain sockets, without any extension.
 */
final class FanOut
{
    /** Longer than the longest wait for a session lock, which is 30 s. */
    private const LIMIT_SECONDS = 40.0;

    /** @param string $front address of the HTTP front, host:port */
    public function __construct(private readonly string $front)
    {
    }

    /**
     * Requests the same path $count times in parallel.
     *
     * @param array<string, string> $cookies sent with each request
     * @return list<array{status: int, took_ms: float, body: array<string, mixed>}> in order of arrival;
     *     status 0 stands for no answer
     */
    public function get(string $path, int $count, array $cookies): array
    {
        $cookie = http_build_query($cookies, '', '; ', PHP_QUERY_RFC3986);
        // HTTP/1.0 keeps the answer plain: no chunks, and its end is the end of the connection.
        $request = "GET $path HTTP/1.0\r\nHost: $this->front\r\nCookie: $cookie\r\n\r\n";

        $begin = microtime(true);
        $open = [];
        for ($i = 0; $i < $count; $i++) {
            $open[$i] = $this->connect();
        }
        foreach (array_filter($open) as $socket) {
            fwrite($socket, $request);
        }

        return $this->collect($open, $begin);
    }

    /** @return resource|null */
    private function connect()
    {
        $socket = stream_socket_client("tcp://$this->front", $code, $reason, 2.0);
        if ($socket === false) {
            return null;
        }
        stream_set_blocking($socket, false);

        return $socket;
    }

    /**
     * @param array<int, resource|null> $open
     * @return list<array{status: int, took_ms: float, body: array<string, mixed>}>
     */
    private function collect(array $open, float $begin): array
    {
        $answers = [];
        $text = array_fill_keys(array_keys($open), '');
        $waiting = array_filter($open);
        while ($waiting !== [] && microtime(true) - $begin < self::LIMIT_SECONDS) {
            $ready = $waiting;
            $write = $except = null;
            if (stream_select($ready, $write, $except, 1) === false) {
                break;
            }
            foreach ($ready as $i => $socket) {
                $text[$i] .= (string) stream_get_contents($socket);
                if (!feof($socket)) {
                    continue;
                }
                fclose($socket);
                unset($waiting[$i]);
                $answers[] = self::parse($text[$i], $begin);
            }
        }
        array_map('fclose', $waiting);
        while (count($answers) < count($open)) {
            $answers[] = self::parse('', $begin);
        }

        return $answers;
    }

    /** @return array{status: int, took_ms: float, body: array<string, mixed>} */
    private static function parse(string $text, float $begin): array
    {
        [$head, $body] = explode("\r\n\r\n", $text, 2) + ['', ''];
        $status = preg_match('~^HTTP/1\.[01] (\d{3})~', $head, $match) === 1 ? (int) $match[1] : 0;
        $decoded = json_decode($body, true);

        return [
            'status' => $status,
            'took_ms' => round((microtime(true) - $begin) * 1000.0, 1),
            'body' => is_array($decoded) ? $decoded : [],
        ];
    }
}
