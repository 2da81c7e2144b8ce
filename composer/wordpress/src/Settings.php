<?php

declare(strict_types=1);

namespace Coatcheck\WordPress;

use Coatcheck\Client\Client;

/**
 * What wp-config.php says about the cache, by constants:
 *
 * - COATCHECK_DSN: the daemon's socket, also as an environment variable; docs/php.md has the options
 * - COATCHECK_PREFIX or WP_CACHE_KEY_SALT: tells installations apart that share a daemon; by default the database and
 *   the prefix of its tables do
 * - COATCHECK_STATE_DIR: where it is noted that the daemon could not be told of changes; by default wp-content. When that
 *   is not writable, it is the system's directory for temporary files
 */
final class Settings
{
    /** In front of what the DSN says: a page waits no longer than this for a daemon that hangs. */
    private const OPTIONS = ['connect_timeout' => 0.5, 'timeout' => 2.0];

    /**
     * @param string $prefix of the buckets' names
     * @param list<string> $stateDirectories in the order they are tried
     */
    public function __construct(
        public readonly string $dsn,
        public readonly string $prefix,
        public readonly array $stateDirectories,
        public readonly string $secret = '',
    ) {
    }

    public static function ofThisSite(): self
    {
        $own = self::constant('COATCHECK_PREFIX') . self::constant('WP_CACHE_KEY_SALT');
        $database = [self::constant('DB_HOST'), self::constant('DB_NAME'), $GLOBALS['table_prefix'] ?? ''];
        $stateDirectory = self::constant('COATCHECK_STATE_DIR');
        return new self(
            self::constant('COATCHECK_DSN') ?: (string) getenv('COATCHECK_DSN') ?: Client::DEFAULT_SOCKET,
            'wordpress:' . substr(hash('sha256', $own !== '' ? $own : implode("\0", $database)), 0, 16),
            [$stateDirectory !== '' ? $stateDirectory : self::constant('WP_CONTENT_DIR'), sys_get_temp_dir()],
            self::constant('AUTH_KEY'),
        );
    }

    public function client(): Client
    {
        return Client::connect($this->dsn, array_diff_key(self::OPTIONS, $this->optionsOfDsn()));
    }

    /** @return array<array-key, mixed> */
    private function optionsOfDsn(): array
    {
        parse_str(explode('?', $this->dsn, 2)[1] ?? '', $options);
        return $options;
    }

    private static function constant(string $name): string
    {
        return defined($name) ? (string) constant($name) : '';
    }
}
