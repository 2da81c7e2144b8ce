<?php

declare(strict_types=1);

namespace Coatcheck\Client\Exception;

/**
 * Makes the exception for a failure: the one table of codes and classes.
 *
 * @internal
 */
final class Failures
{
    private const BY_CODE = [
        'busy' => BusyException::class,
        'refused' => RefusedException::class,
        'unreachable' => UnreachableOwnerException::class,
        'too_large' => TooLargeException::class,
        'protocol' => ProtocolException::class,
        'unavailable' => UnavailableException::class,
    ];

    /** The more special first: each of the extension's classes also is its last one. */
    private const BY_EXTENSION_CLASS = [
        \Coatcheck\BusyException::class => BusyException::class,
        \Coatcheck\RefusedException::class => RefusedException::class,
        \Coatcheck\UnreachableOwnerException::class => UnreachableOwnerException::class,
        \Coatcheck\TooLargeException::class => TooLargeException::class,
        \Coatcheck\ProtocolException::class => ProtocolException::class,
        \Coatcheck\UnavailableException::class => UnavailableException::class,
        \Coatcheck\ConnectionException::class => ConnectionException::class,
        \Coatcheck\TimeoutException::class => TimeoutException::class,
    ];

    /**
     * @param mixed $error the error of a response: [code, message, details]
     */
    public static function ofDaemon(string $socket, string $method, mixed $error): RequestFailed
    {
        if (!is_array($error) || !is_string($error[0] ?? null) || !is_string($error[1] ?? null)) {
            return ProtocolException::because(
                "coatcheck at $socket: $method: the daemon's error is not [code, message, details]"
            );
        }
        $class = self::BY_CODE[$error[0]] ?? InternalException::class;
        $details = is_array($error[2] ?? null) ? $error[2] : [];
        $sentence = str_starts_with($error[1], $method) ? $error[1] : "$method: $error[1]";
        return $class::because("coatcheck at $socket: $sentence", $details, $error[0] === 'unreachable');
    }

    public static function ofExtension(\Coatcheck\Exception $exception): RequestFailed
    {
        foreach (self::BY_EXTENSION_CLASS as $theirs => $ours) {
            if ($exception instanceof $theirs) {
                return $ours::because(
                    $exception->getMessage(),
                    $exception->details,
                    self::extensionLeavesUnknown($exception),
                    $exception,
                );
            }
        }
        return InternalException::because($exception->getMessage(), $exception->details, false, $exception);
    }

    /**
     * The extension does not tell whether a connection broke before or after the request was sent, so
     * what cannot be ruled out counts as possible.
     */
    private static function extensionLeavesUnknown(\Coatcheck\Exception $exception): bool
    {
        return $exception instanceof \Coatcheck\UnreachableOwnerException
            || $exception instanceof \Coatcheck\TimeoutException
            || $exception instanceof \Coatcheck\ConnectionException;
    }
}
