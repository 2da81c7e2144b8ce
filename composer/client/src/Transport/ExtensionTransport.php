<?php

declare(strict_types=1);

namespace Coatcheck\Client\Transport;

use Coatcheck\Client\Exception\Failures;
use Coatcheck\Client\Exception\InvalidArgumentException;
use Coatcheck\Client\Exception\RequestFailed;

/**
 * Asks through the extension's coatcheck_call(), at the socket of its setting coatcheck.socket and with its
 * time limits. The extension keeps one connection for each socket in a process, ends bound locks with the
 * PHP request and looks out for forks.
 */
final class ExtensionTransport implements Transport
{
    private readonly string $socket;

    public function __construct()
    {
        if (!self::isAvailable()) {
            throw new InvalidArgumentException('the extension coatcheck is not loaded');
        }
        $this->socket = self::configuredSocket();
    }

    /** The transport for this socket, which must be the extension's. */
    public static function at(string $socket): self
    {
        $transport = new self();
        if ($transport->socket !== $socket) {
            throw new InvalidArgumentException(
                "the extension's socket is {$transport->socket} (coatcheck.socket), not $socket"
            );
        }
        return $transport;
    }

    public static function isAvailable(): bool
    {
        return function_exists('coatcheck_call');
    }

    /** Is the extension loaded and its setting coatcheck.socket this path? */
    public static function serves(string $socket): bool
    {
        return self::isAvailable() && self::configuredSocket() === $socket;
    }

    public function call(string $method, array $params = []): mixed
    {
        try {
            return coatcheck_call($method, $params);
        } catch (\Coatcheck\Exception $failure) {
            throw Failures::ofExtension($failure);
        } catch (\ValueError $error) {
            throw new InvalidArgumentException("$method: {$error->getMessage()}", 0, $error);
        }
    }

    public function pipeline(array $calls): array
    {
        try {
            $answers = coatcheck_pipeline($calls);
        } catch (\Coatcheck\Exception $failure) {
            throw Failures::ofExtension($failure);
        } catch (\ValueError | \TypeError $error) {
            throw new InvalidArgumentException($error->getMessage(), 0, $error);
        }
        return array_map(self::ours(...), $answers);
    }

    public function socket(): string
    {
        return $this->socket;
    }

    private static function ours(mixed $answer): mixed
    {
        return $answer instanceof \Coatcheck\Exception ? Failures::ofExtension($answer) : $answer;
    }

    private static function configuredSocket(): string
    {
        $socket = (string) ini_get('coatcheck.socket');
        return strncasecmp($socket, 'unix://', 7) === 0 ? substr($socket, 7) : $socket;
    }
}
