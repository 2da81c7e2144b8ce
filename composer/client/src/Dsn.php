<?php

declare(strict_types=1);

namespace Coatcheck\Client;

use Coatcheck\Client\Exception\InvalidArgumentException;

/**
 * Where a daemon is and how to talk to it, as one line: /run/coatcheck/coatcheck.sock,
 * unix:///run/coatcheck/coatcheck.sock?timeout=2 or coatcheck:///run/coatcheck/coatcheck.sock?persistent=0.
 */
final class Dsn
{
    /**
     * @param array<string, string> $options what stood behind the question mark
     */
    private function __construct(public readonly string $socket, public readonly array $options)
    {
    }

    /** @throws InvalidArgumentException when the text names no absolute path */
    public static function parse(string $dsn): self
    {
        $rest = preg_replace('#^(coatcheck|unix)://#i', '', $dsn, 1, $hasScheme);
        [$path, $query] = explode('?', $rest, 2) + [1 => ''];
        parse_str($query, $options);
        if ($hasScheme === 1) {
            $path = rawurldecode($path);
        }
        if (!str_starts_with($path, '/')) {
            throw new InvalidArgumentException(
                "\"$dsn\" names no socket; write its absolute path, as in coatcheck:///run/coatcheck/coatcheck.sock"
            );
        }
        foreach ($options as $name => $value) {
            if (!is_string($value)) {
                throw new InvalidArgumentException("the option $name of \"$dsn\" must be a single value");
            }
        }
        return new self($path, $options);
    }
}
