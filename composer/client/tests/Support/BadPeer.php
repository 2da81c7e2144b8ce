<?php

declare(strict_types=1);

namespace Coatcheck\Client\Tests\Support;

use Coatcheck\Client\Codec\Encoder;
use Coatcheck\Tests\Packages\Child;

/**
 * A peer that is no good daemon: it lies, hangs or goes away, as the test tells it to. It serves one connection after
 * the other in a process of its own.
 */
final class BadPeer
{
    private readonly Child $child;

    /**
     * @param callable(resource, int): void $serve is given each connection, after hello was answered, and how many came
     *     before; when it returns the connection is closed
     */
    public function __construct(public readonly string $socket, callable $serve, bool $greets = true, mixed $maxFrame = 65536)
    {
        $server = stream_socket_server("unix://$socket", $number, $problem);
        if ($server === false) {
            throw new \RuntimeException("listen on $socket: $problem");
        }
        $this->child = Child::fork(static function () use ($server, $serve, $greets, $maxFrame): void {
            for ($count = 0; true; $count++) {
                $connection = stream_socket_accept($server, 60);
                if ($greets) {
                    [$body] = [self::read($connection)];
                    $id = unpack('N', substr($body, 3, 4))[1];
                    fwrite($connection, self::answer($id, ['version' => 1, 'server' => 'bad', 'max_frame' => $maxFrame]));
                }
                $serve($connection, $count);
                fclose($connection);
            }
        });
        fclose($server);
    }

    public function __destruct()
    {
        $this->child->kill();
        @unlink($this->socket);
    }

    /**
     * The body of the next frame.
     *
     * @param resource $connection
     */
    public static function read($connection): string
    {
        $length = unpack('N', self::bytes($connection, 4))[1];
        return self::bytes($connection, $length);
    }

    /**
     * The id of the next request.
     *
     * @param resource $connection
     */
    public static function readId($connection): int
    {
        return unpack('N', substr(self::read($connection), 3, 4))[1];
    }

    public static function answer(int $id, mixed $result): string
    {
        return self::frame(Encoder::encode([1, $id, null, $result]));
    }

    public static function frame(string $body): string
    {
        return pack('N', strlen($body)) . $body;
    }

    /** @param resource $connection */
    private static function bytes($connection, int $length): string
    {
        $bytes = '';
        while (strlen($bytes) < $length) {
            $part = fread($connection, $length - strlen($bytes));
            if ($part === false || $part === '') {
                throw new \RuntimeException('the client has gone');
            }
            $bytes .= $part;
        }
        return $bytes;
    }
}
