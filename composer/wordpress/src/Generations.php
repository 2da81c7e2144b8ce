<?php

declare(strict_types=1);

namespace Coatcheck\WordPress;

/**
 * In which generation the groups of a space are. The keys of values begin with the generation of their group, so a new
 * one flushes exactly that group in constant time; the values left behind go when memory is needed.
 *
 * Generations are random and never come again. Should the daemon evict the record of them, a new one is made and every
 * value of the space is a miss: nothing flushed ever comes back.
 */
final class Generations
{
    /** More flushed groups than this, and all of them move together. */
    private const GROUPS_MAX = 500;

    /** The longest key that is kept as it is, in bytes. */
    private const KEY_MAX = 1024;

    /**
     * @param string $raw as the daemon keeps it
     * @param array<array-key, string> $flushed groups with a generation of their own
     */
    private function __construct(
        public readonly string $raw,
        private readonly string $base,
        private readonly array $flushed,
    ) {
    }

    public static function begin(): self
    {
        return self::of(self::random(), []);
    }

    /** @return self|null null when this is no such record */
    public static function parse(string $raw): ?self
    {
        $record = @unserialize($raw, ['allowed_classes' => false]);
        return is_array($record) && is_string($record[0] ?? null) && is_array($record[1] ?? null)
            ? new self($raw, $record[0], $record[1])
            : null;
    }

    /** The same after the flush of a group. */
    public function afterFlushOf(string $group): self
    {
        return isset($this->flushed[$group]) || count($this->flushed) < self::GROUPS_MAX
            ? self::of($this->base, [$group => self::random()] + $this->flushed)
            : self::begin();
    }

    /** The daemon's key of a value. */
    public function keyOf(Name $name): string
    {
        $generation = $this->flushed[$name->group] ?? $this->base;
        $rest = strlen($name->group) . ":$name->group:$name->key"; // with the length no group and key look like others
        return strlen($rest) <= self::KEY_MAX ? "$generation:$rest" : "$generation:#" . hash('sha256', $rest);
    }

    /** @param array<array-key, string> $flushed */
    private static function of(string $base, array $flushed): self
    {
        return new self(serialize([$base, $flushed]), $base, $flushed);
    }

    private static function random(): string
    {
        return bin2hex(random_bytes(8));
    }
}
