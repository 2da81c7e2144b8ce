<?php

declare(strict_types=1);

namespace Coatcheck\Client;

use Coatcheck\Client\Exception\InvalidArgumentException;

/**
 * The options of Client::connect(), checked. They may be texts, as they come from a DSN or from the environment.
 *
 * @internal
 */
final class ConnectOptions
{
    private const DEFAULTS = [
        'transport' => 'auto', 'connect_timeout' => 1.0, 'timeout' => 5.0, 'persistent' => true, 'codec' => 'auto',
    ];

    private function __construct(
        public readonly string $transport,
        public readonly float $connectTimeoutSeconds,
        public readonly float $timeoutSeconds,
        public readonly bool $isPersistent,
        public readonly string $codec,
    ) {
    }

    /** @param array<string, mixed> $options */
    public static function from(array $options): self
    {
        $unknown = array_diff_key($options, self::DEFAULTS);
        if ($unknown !== []) {
            throw new InvalidArgumentException(sprintf(
                'there is no option %s; there are %s',
                implode(', ', array_keys($unknown)),
                implode(', ', array_keys(self::DEFAULTS)),
            ));
        }
        $options += self::DEFAULTS;
        return new self(
            self::oneOf('transport', $options['transport'], ['auto', 'extension', 'stream']),
            self::seconds('connect_timeout', $options['connect_timeout']),
            self::seconds('timeout', $options['timeout']),
            self::flag('persistent', $options['persistent']),
            self::oneOf('codec', $options['codec'], ['auto', 'plain']),
        );
    }

    /** @param list<string> $choices */
    private static function oneOf(string $name, mixed $value, array $choices): string
    {
        if (!in_array($value, $choices, true)) {
            throw new InvalidArgumentException("the option $name must be one of " . implode(', ', $choices));
        }
        return $value;
    }

    private static function seconds(string $name, mixed $value): float
    {
        if (!is_numeric($value) || !((float) $value > 0)) {
            throw new InvalidArgumentException("the option $name must be a number of seconds above 0");
        }
        return (float) $value;
    }

    private static function flag(string $name, mixed $value): bool
    {
        return filter_var($value, FILTER_VALIDATE_BOOL, FILTER_NULL_ON_FAILURE)
            ?? throw new InvalidArgumentException("the option $name must be true or false");
    }
}
