<?php

declare(strict_types=1);

namespace Coatcheck\Tests\Packages;

/**
 * Settings of a PHP that a test starts, as options of its command line.
 */
final class Ini
{
    private const DEFAULTS = ['display_errors' => '1', 'html_errors' => '0', 'session.gc_probability' => '0'];

    /**
     * @param array<string, string> $ini
     * @return list<string>
     */
    public static function options(array $ini = []): array
    {
        $options = [];
        foreach ($ini + self::DEFAULTS as $name => $value) {
            array_push($options, '-d', "$name=\"$value\"");
        }
        return $options;
    }

    /**
     * What loads the extension for this socket.
     *
     * @return array<string, string>
     */
    public static function extension(string $socket): array
    {
        return ['extension' => (string) getenv('COATCHECK_TEST_EXTENSION'), 'coatcheck.socket' => $socket];
    }
}
