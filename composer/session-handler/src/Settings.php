<?php

declare(strict_types=1);

namespace Coatcheck\Session;

use Coatcheck\Client\Client;
use Coatcheck\Client\Exception\InvalidArgumentException;

/**
 * The settings of a session handler. Names, defaults and values are those of the extension (coatcheck.lock_wait and so
 * on), so that a site may change from one to the other; socket, transport, persistent and codec come on top.
 *
 * session.save_path may carry the socket and settings as it may for the extension:
 * unix:///run/coatcheck/coatcheck.sock?lock_wait=10&prefix=shop. What it says goes before what register() was given. A
 * directory, such as Debian's /var/lib/php/sessions, counts as empty.
 */
final class Settings
{
    public const UNLOCKED = 'unlocked';
    public const FAIL = 'fail';
    public const READONLY = 'readonly';

    private const DEFAULTS = [
        'socket' => Client::DEFAULT_SOCKET,
        'prefix' => '',
        'session_locking' => true,
        'lock_lease' => 30,
        'lock_wait' => 30,
        'lock_failure' => self::UNLOCKED,
        'connect_timeout_ms' => 1000,
        'timeout_ms' => 5000,
        'transport' => 'auto',
        'persistent' => true,
        'codec' => 'auto',
    ];
    private const OF_SAVE_PATH = [
        'lock_wait', 'lock_lease', 'lock_failure', 'session_locking', 'prefix', 'timeout_ms', 'connect_timeout_ms',
    ];
    private const MAX_SECONDS = 86_400;
    private const PREFIX_MAX = 255;

    public readonly string $socket;
    public readonly string $prefix;
    public readonly bool $sessionLocking;
    public readonly float $lockLeaseSeconds;
    public readonly float $lockWaitSeconds;
    public readonly string $lockFailure;

    /** @var array<string, mixed> the options of Client::connect() */
    public readonly array $connection;

    /**
     * @param array<string, mixed> $options
     *
     * @throws InvalidArgumentException when a name or value is none
     */
    public function __construct(array $options = [])
    {
        foreach (array_diff(array_keys($options), array_keys(self::DEFAULTS)) as $unknown) {
            throw self::unknown((string) $unknown, array_keys(self::DEFAULTS));
        }
        $options += self::DEFAULTS;
        $this->socket = self::socket($options['socket']);
        $this->prefix = self::prefix($options['prefix']);
        $this->sessionLocking = self::flag('session_locking', $options['session_locking']);
        $this->lockLeaseSeconds = self::number('lock_lease', $options['lock_lease'], 0.001);
        $this->lockWaitSeconds = self::number('lock_wait', $options['lock_wait'], 0);
        $this->lockFailure = self::lockFailure($options['lock_failure']);
        $this->connection = [
            'connect_timeout' => self::number('connect_timeout_ms', $options['connect_timeout_ms'], 1, 1000) / 1000,
            'timeout' => self::number('timeout_ms', $options['timeout_ms'], 1, 1000) / 1000,
            'transport' => $options['transport'],
            'persistent' => $options['persistent'],
            'codec' => $options['codec'],
        ];
    }

    /**
     * The settings when PHP opens with this session.save_path.
     *
     * @param array<string, mixed> $options what register() was given
     *
     * @throws InvalidArgumentException when the path is none or carries what it may not
     */
    public static function withSavePath(array $options, string $savePath): self
    {
        [$path, $query] = stripos($savePath, 'unix:') === 0 ? explode('?', $savePath, 2) + [1 => ''] : [$savePath, ''];
        $path = (string) preg_replace('#^unix:(//)?#i', '', $path);
        if ($path !== '' && !is_dir($path)) {
            $options['socket'] = $path;
        }
        return new self(self::fromQuery($query) + $options);
    }

    /** Do both lead to the same daemon in the same way? */
    public function reachAs(self $other): bool
    {
        return $this->socket === $other->socket && $this->connection === $other->connection;
    }

    /** @return array<string, string> */
    private static function fromQuery(string $query): array
    {
        $options = [];
        foreach (array_filter(explode('&', $query), 'strlen') as $pair) {
            [$name, $value] = explode('=', $pair, 2) + [1 => null];
            if ($value === null) {
                throw new InvalidArgumentException("the option $name needs a value as in name=value");
            }
            if (!in_array($name, self::OF_SAVE_PATH, true)) {
                throw self::unknown($name, self::OF_SAVE_PATH);
            }
            $options[$name] = rawurldecode($value);
        }
        return $options;
    }

    private static function socket(mixed $value): string
    {
        $path = is_string($value) ? (string) preg_replace('#^(unix|coatcheck)://#i', '', $value) : '';
        if (!str_starts_with($path, '/')) {
            throw self::bad('socket', $value, 'the absolute path of a Unix socket');
        }
        return $path;
    }

    private static function prefix(mixed $value): string
    {
        if (!is_string($value) || strlen($value) > self::PREFIX_MAX) {
            throw self::bad('prefix', $value, 'at most ' . self::PREFIX_MAX . ' bytes');
        }
        return $value;
    }

    private static function lockFailure(mixed $value): string
    {
        $word = is_string($value) ? strtolower($value) : '';
        if (!in_array($word, [self::UNLOCKED, self::FAIL, self::READONLY], true)) {
            throw self::bad('lock_failure', $value, 'unlocked, fail or readonly');
        }
        return $word;
    }

    /** A misspelt word must not turn the locks off. */
    private static function flag(string $name, mixed $value): bool
    {
        return is_scalar($value) && $value !== ''
            ? filter_var($value, FILTER_VALIDATE_BOOL, FILTER_NULL_ON_FAILURE) ?? throw self::bad($name, $value, 'On or Off')
            : throw self::bad($name, $value, 'On or Off');
    }

    /** @param int $unit how many of its units are a second */
    private static function number(string $name, mixed $value, float $least, int $unit = 1): float
    {
        $most = self::MAX_SECONDS * $unit;
        if (!is_numeric($value) || $value < $least || $value > $most || ($unit > 1 && (int) $value != $value)) {
            throw self::bad($name, $value, ($unit > 1 ? 'whole milliseconds, ' : 'seconds, ') . "$least to $most");
        }
        return (float) $value;
    }

    private static function bad(string $name, mixed $value, string $allowed): InvalidArgumentException
    {
        $shown = is_scalar($value) ? substr((string) $value, 0, 60) : get_debug_type($value);
        return new InvalidArgumentException("the option $name has the bad value \"$shown\"; it can be: $allowed");
    }

    /** @param list<string> $known */
    private static function unknown(string $name, array $known): InvalidArgumentException
    {
        return new InvalidArgumentException("unknown option $name; there are " . implode(', ', $known));
    }
}
