<?php

declare(strict_types=1);

namespace Coatcheck\Client\Transport;

use Coatcheck\Client\Codec\Codec;
use Coatcheck\Client\Codec\ExtMsgpackCodec;
use Coatcheck\Client\Codec\PlainCodec;
use Coatcheck\Client\Exception\InvalidArgumentException;

/**
 * How a StreamTransport reaches the daemon.
 */
final class StreamOptions
{
    /** What the kernel takes as the path of a socket, in bytes. */
    private const PATH_MAX = 107;

    public readonly Codec $codec;

    /**
     * @param string $socket the path of the daemon's socket
     * @param float $connectTimeoutSeconds how long to try to connect, and how long a daemon that restarts is waited for
     * @param float $timeoutSeconds how long to wait for an answer; what the request itself asks the daemon to wait
     *     comes on top
     * @param bool $persistent keep the connection for the next request of the same PHP process; without effect on the
     *     command line, where the process ends with the request and may fork
     * @param Codec|null $codec ext-msgpack where it is loaded, unless given
     */
    public function __construct(
        public readonly string $socket,
        public readonly float $connectTimeoutSeconds = 1.0,
        public readonly float $timeoutSeconds = 5.0,
        public readonly bool $persistent = true,
        ?Codec $codec = null,
    ) {
        if ($socket === '' || strlen($socket) > self::PATH_MAX || str_contains($socket, "\0")) {
            throw new InvalidArgumentException(
                sprintf('the path of the socket must have 1 to %d bytes: %s', self::PATH_MAX, $socket)
            );
        }
        if ($connectTimeoutSeconds <= 0 || $timeoutSeconds <= 0) {
            throw new InvalidArgumentException('a time limit must be above 0 seconds');
        }
        $this->codec = $codec ?? (ExtMsgpackCodec::isAvailable() ? new ExtMsgpackCodec() : new PlainCodec());
    }

    /** A process of these kinds serves many requests, and none of them forks. */
    public function keepsConnection(): bool
    {
        return $this->persistent && !in_array(PHP_SAPI, ['cli', 'phpdbg', 'embed'], true);
    }
}
