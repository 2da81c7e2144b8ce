<?php

declare(strict_types=1);

namespace Coatcheck\Client;

use Coatcheck\Client\Codec\PlainCodec;
use Coatcheck\Client\Exception\InvalidArgumentException;
use Coatcheck\Client\Exception\RequestFailed;
use Coatcheck\Client\Transport\ExtensionTransport;
use Coatcheck\Client\Transport\StreamOptions;
use Coatcheck\Client\Transport\StreamTransport;
use Coatcheck\Client\Transport\Transport;

/**
 * All that the daemon can do, with types: values (the methods of Values, in the default bucket), locks, sessions.
 *
 *     $client = Client::connect('/run/coatcheck/coatcheck.sock');
 *     $client->set('greeting', 'hello', ttlSeconds: 60);
 *
 * Nothing connects before the first request. A failure is a RequestFailed, one class per failure; it is also the
 * Coatcheck\Exception that the extension's functions throw.
 */
final class Client
{
    use Values;
    use Locks;
    use Sessions;
    use Server;

    public const DEFAULT_SOCKET = '/run/coatcheck/coatcheck.sock';

    public function __construct(public readonly Transport $transport)
    {
    }

    /**
     * A client of the daemon at a socket: through the extension when it is loaded and its setting coatcheck.socket is
     * this socket, else over a stream socket.
     *
     * @param string $dsn a path, or unix:// or coatcheck:// and a path, with the options as a query if you like
     * @param array<string, mixed> $options
     *     - transport: auto (default), extension or stream
     *     - connect_timeout: seconds, 1.0; stream only, the extension has coatcheck.connect_timeout_ms
     *     - timeout: seconds, 5.0; stream only, the extension has coatcheck.timeout_ms
     *     - persistent: keep the connection for later requests of the process, true; stream only, and without effect on
     *       the command line
     *     - codec: auto (default: ext-msgpack where it is loaded) or plain; stream only
     *
     * @throws InvalidArgumentException when the socket or an option is none
     */
    public static function connect(string $dsn = self::DEFAULT_SOCKET, array $options = []): self
    {
        $dsn = Dsn::parse($dsn);
        $options = ConnectOptions::from($options + $dsn->options);
        $useExtension = match ($options->transport) {
            'stream' => false,
            'extension' => true,
            default => ExtensionTransport::serves($dsn->socket),
        };
        if ($useExtension) {
            return new self(ExtensionTransport::at($dsn->socket));
        }
        return new self(new StreamTransport(new StreamOptions(
            $dsn->socket,
            $options->connectTimeoutSeconds,
            $options->timeoutSeconds,
            $options->isPersistent,
            $options->codec === 'plain' ? new PlainCodec() : null,
        )));
    }

    /** The values of another bucket. */
    public function bucket(string $name): Bucket
    {
        return new Bucket($this->transport, $name);
    }

    /** One request by its name on the wire; docs/protocol.md has them. @param array<string, mixed> $params */
    public function call(string $method, array $params = []): mixed
    {
        return $this->transport->call($method, $params);
    }

    /**
     * Several requests in one round trip, each [method, params] with names as on the wire. The answers have the keys
     * of the calls; in the place of one that failed stands its RequestFailed.
     *
     * @param array<array-key, array{0: string, 1?: array<string, mixed>}> $calls
     * @return array<array-key, mixed>
     *
     * @throws RequestFailed when the daemon could not be asked
     */
    public function pipeline(array $calls): array
    {
        return $this->transport->pipeline($calls);
    }

    private function ask(string $method, array $params): mixed
    {
        return $this->transport->call($method, $params);
    }

    private function askMany(array $calls): array
    {
        return $this->transport->pipeline($calls);
    }
}
