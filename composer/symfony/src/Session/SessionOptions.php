<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Session;

/**
 * The options of CoatcheckSessionHandler, checked. They may be texts, as they come from the environment.
 *
 * @internal
 */
final class SessionOptions
{
    public const DEFAULTS = [
        'prefix' => '',
        'ttl' => null,
        'locking' => true,
        'lock_lease' => 30.0,
        'lock_wait' => 30.0,
        'lock_failure' => 'unlocked',
    ];

    public const LOCK_FAILURES = ['unlocked', 'fail', 'readonly'];

    private function __construct(
        public readonly string $prefix,
        private readonly int|\Closure|null $ttl,
        public readonly bool $isLocking,
        public readonly float $leaseSeconds,
        public readonly float $waitSeconds,
        public readonly string $lockFailure,
    ) {
    }

    /** @param array<string, mixed> $options */
    public static function from(array $options): self
    {
        $unknown = array_diff_key($options, self::DEFAULTS);
        if ($unknown !== []) {
            throw new \InvalidArgumentException(sprintf(
                'there is no session option %s; there are %s',
                implode(', ', array_keys($unknown)),
                implode(', ', array_keys(self::DEFAULTS)),
            ));
        }
        $options += self::DEFAULTS;
        if (!in_array($options['lock_failure'], self::LOCK_FAILURES, true)) {
            throw new \InvalidArgumentException(
                'the session option lock_failure must be one of ' . implode(', ', self::LOCK_FAILURES)
            );
        }
        $lease = self::seconds('lock_lease', $options['lock_lease']);
        if ($lease === 0.0) {
            throw new \InvalidArgumentException('the session option lock_lease must be above 0 seconds');
        }
        return new self(
            (string) $options['prefix'],
            self::ttl($options['ttl']),
            self::flag('locking', $options['locking']),
            $lease,
            self::seconds('lock_wait', $options['lock_wait']),
            $options['lock_failure'],
        );
    }

    /** How long a session lives after its last use; at least a second. */
    public function ttlSeconds(): int
    {
        $ttl = $this->ttl instanceof \Closure ? ($this->ttl)() : $this->ttl;
        return max(1, (int) ($ttl ?? ini_get('session.gc_maxlifetime')));
    }

    private static function ttl(mixed $ttl): int|\Closure|null
    {
        if ($ttl === null || $ttl instanceof \Closure) {
            return $ttl;
        }
        $seconds = filter_var($ttl, FILTER_VALIDATE_INT, ['options' => ['min_range' => 1]]);
        if ($seconds === false) {
            throw new \InvalidArgumentException('the session option ttl must be a whole number of seconds above 0');
        }
        return $seconds;
    }

    private static function seconds(string $name, mixed $value): float
    {
        if (!is_numeric($value) || (float) $value < 0) {
            throw new \InvalidArgumentException("the session option $name must be a number of seconds");
        }
        return (float) $value;
    }

    private static function flag(string $name, mixed $value): bool
    {
        return filter_var($value, FILTER_VALIDATE_BOOL, FILTER_NULL_ON_FAILURE)
            ?? throw new \InvalidArgumentException("the session option $name must be true or false");
    }
}
