<?php

declare(strict_types=1);

namespace Coatcheck\WordPress;

/**
 * Reads at once what earlier requests for the same page have read one by one. A first round trip brings the names, a
 * second the values, and the page finds all it needs in this process.
 *
 * What is remembered is a guess: a value that is not among it is read when it is asked for.
 */
final class Foresight
{
    /** How long names are remembered. */
    private const LIFE_MS = 86_400_000;

    /** More names than this are not remembered. */
    private const NAMES_MAX = 2000;

    /** How long the page believes that a value was missing; a loop that waits for one without force goes on after that. */
    private const MISSING_SECONDS = 1.0;

    private bool $hasLooked = false;

    /** @var array<array-key, array<array-key, array<array-key, true>>> by space, group and key: what was remembered */
    private array $remembered = [];

    /** @var array<array-key, array<array-key, array<array-key, true>>> what this request read */
    private array $used = [];

    /** @var array<array-key, array<array-key, array<array-key, string|null>>> what was read and not yet asked for */
    private array $values = [];
    private float $readAt = 0.0;

    /** Was what is remembered of another generation? */
    private bool $wasWrong = false;

    /** @param string|null $page the kind of page; null to look ahead for none */
    public function __construct(private readonly Spaces $spaces, private readonly ?string $page)
    {
    }

    /**
     * What was read ahead of a value. Each is told once, so that whoever asks again asks the daemon; only what is missing
     * stays so for a moment.
     *
     * @return array{string|null}|null null when it was not, or is not to be relied on any more
     */
    public function tell(string $space, Name $name): ?array
    {
        if ($this->page === null) {
            return null;
        }
        if (!$this->hasLooked) {
            $this->hasLooked = true;
            $this->look();
        }
        $this->used[$space][$name->group][$name->key] = true;
        if (!array_key_exists($name->key, $this->values[$space][$name->group] ?? [])) {
            return null;
        }
        $value = $this->values[$space][$name->group][$name->key];
        if ($value !== null) {
            $this->forget($space, $name);
        } elseif (microtime(true) > $this->readAt + self::MISSING_SECONDS) {
            $this->forget($space, $name);
            return null;
        }
        return [$value];
    }

    /** It is about to change, so what was read ahead is worth nothing. */
    public function forget(string $space, Name $name): void
    {
        unset($this->values[$space][$name->group][$name->key]);
    }

    public function forgetAll(): void
    {
        $this->values = [];
    }

    /** At the end of a page: its names are remembered unless they are already. */
    public function remember(): void
    {
        if ($this->page === null || !$this->hasLooked || !PageKind::wasFound()) {
            return;
        }
        $missing = self::difference($this->used, $this->remembered);
        if (self::count($missing) === 0 && !$this->wasWrong) {
            return;
        }
        $unused = self::difference($this->remembered, $this->used);
        $names = self::count($unused) > self::count($this->used)
            ? $this->used
            : array_replace_recursive($this->used, $this->remembered);
        if (self::count($names) <= self::NAMES_MAX) {
            $this->write($names);
        }
    }

    private function look(): void
    {
        $raw = $this->spaces->shared()->readPlain((string) $this->page);
        $requests = [];
        foreach ($raw === null ? [] : self::parse($raw) as $space => [$generations, $groups]) {
            $this->remembered[$space] = $groups;
            $names = self::names($groups);
            $reading = $names === [] ? null : $this->spaces->get((string) $space)->readingBy($generations, $names);
            if ($reading !== null) {
                $requests[$space] = $reading;
            }
        }
        $answers = $requests === [] ? null : $this->spaces->daemon->ask($requests);
        foreach ($answers ?? [] as $space => $answer) {
            $values = $this->spaces->get((string) $space)->take($answer);
            $this->wasWrong = $this->wasWrong || $values === null;
            foreach ($values === null ? [] : self::names($this->remembered[$space]) as $index => $name) {
                $this->values[$space][$name->group][$name->key] = $values[$index];
            }
        }
        $this->readAt = microtime(true);
    }

    /** @param array<array-key, array<array-key, array<array-key, true>>> $names */
    private function write(array $names): void
    {
        $record = [];
        foreach ($names as $space => $groups) {
            $generations = $this->spaces->get((string) $space)->generations();
            if ($generations !== null) {
                $record[$space] = [$generations, $groups];
            }
        }
        $this->spaces->shared()->writePlain((string) $this->page, serialize($record), self::LIFE_MS);
    }

    /** @return array<array-key, array{string, array<array-key, array<array-key, true>>}> what is well-formed of it */
    private static function parse(string $raw): array
    {
        $record = @unserialize($raw, ['allowed_classes' => false]);
        return array_filter(is_array($record) ? $record : [], static fn ($of) => is_array($of)
            && is_string($of[0] ?? null)
            && is_array($of[1] ?? null)
            && array_filter($of[1], 'is_array') === $of[1]);
    }

    /**
     * @param array<array-key, array<array-key, true>> $groups
     * @return list<Name>
     */
    private static function names(array $groups): array
    {
        $names = [];
        foreach ($groups as $group => $keys) {
            foreach (array_keys($keys) as $key) {
                $names[] = new Name((string) $group, $key);
            }
        }
        return $names;
    }

    /**
     * @param array<array-key, array<array-key, array<array-key, true>>> $names
     * @param array<array-key, array<array-key, array<array-key, true>>> $others
     * @return array<array-key, array<array-key, array<array-key, true>>> the names that are not among the others
     */
    private static function difference(array $names, array $others): array
    {
        foreach ($names as $space => $groups) {
            foreach ($groups as $group => $keys) {
                $names[$space][$group] = array_diff_key($keys, $others[$space][$group] ?? []);
            }
        }
        return $names;
    }

    /** @param array<array-key, array<array-key, array<array-key, true>>> $names */
    private static function count(array $names): int
    {
        return array_sum(array_map(static fn (array $groups) => array_sum(array_map('count', $groups)), $names));
    }
}
