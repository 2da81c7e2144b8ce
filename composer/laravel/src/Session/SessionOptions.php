<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Session;

/**
 * How sessions are kept; config/coatcheck.php explains the settings.
 */
final class SessionOptions
{
    public const LOCK_FAILURES = ['unlocked', 'readonly', 'fail'];

    /**
     * @param float $lifetimeSeconds after which a session that nobody used is gone
     * @param string $prefix the keyspace
     * @param bool $locks is a session one request's at a time?
     * @param string $lockFailure what a contended lock means after the wait: one of LOCK_FAILURES
     */
    public function __construct(
        public readonly float $lifetimeSeconds,
        public readonly string $prefix = '',
        public readonly bool $locks = true,
        public readonly float $lockLeaseSeconds = 30.0,
        public readonly float $lockWaitSeconds = 30.0,
        public readonly string $lockFailure = 'unlocked',
    ) {
        if (!in_array($lockFailure, self::LOCK_FAILURES, true)) {
            throw new \InvalidArgumentException(sprintf(
                'coatcheck.session.lock_failure must be one of %s, not "%s"',
                implode(', ', self::LOCK_FAILURES),
                $lockFailure,
            ));
        }
    }

    /**
     * @param array<string, mixed> $settings `session` of config/coatcheck.php
     * @param int|float|string $lifetimeMinutes `lifetime` of config/session.php
     */
    public static function from(array $settings, int|float|string $lifetimeMinutes): self
    {
        return new self(
            max(1.0, (float) $lifetimeMinutes * 60),
            (string) ($settings['prefix'] ?? ''),
            filter_var($settings['locking'] ?? true, FILTER_VALIDATE_BOOL),
            (float) ($settings['lock_lease'] ?? 30.0),
            (float) ($settings['lock_wait'] ?? 30.0),
            (string) ($settings['lock_failure'] ?? 'unlocked'),
        );
    }
}
