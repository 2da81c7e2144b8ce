<?php

declare(strict_types=1);

namespace Coatcheck\WordPress;

use Coatcheck\Client\Exception\RequestFailed;

/**
 * Keeps the maps that WordPress reads, changes and writes back whole: `alloptions`, every option that is loaded at the
 * start, and `notoptions`, the names that are known to be no options.
 *
 * Guarantees:
 * - Of two requests that change different options neither undoes the other's change. A map is written only over the one
 *   that it was made from; if that has changed, what was changed in it is applied to the newer one.
 * - A map that was read from the database before a change is not stored after it. Whoever finds `alloptions` missing leaves
 *   a lease in its place, and may store only as long as that is there.
 * - An option that was just created is not taken for missing: its creation changes `notoptions`, so nobody adds to it what
 *   he knew before. Whoever finds `notoptions` missing leaves an empty one, so there is something to change.
 *
 * Does not guarantee: which of two requests wins that change the same option.
 */
final class OptionsGuard
{
    private const ALL = 'alloptions';

    /** How long a map may take to be read from the database. */
    private const LEASE_MS = 30_000;

    /** How often a change is repeated because others were faster; then the map is removed, and read from the database. */
    private const TRIES = 50;

    /**
     * @var array<string, array{string, array<array-key, mixed>, array<array-key, mixed>|null}> what the daemon had last,
     *     raw and as a map, and the map in the caller's hand if that lacks what others changed: until he reads it again
     */
    private array $bases = [];

    /** @var array<string, string> */
    private array $leases = [];

    public function guards(Name $name): bool
    {
        return match ($name->group) {
            'options' => $name->key === self::ALL || $name->key === 'notoptions',
            'site-options' => preg_match('/^\d+:notoptions$/D', $name->key) === 1,
            default => false,
        };
    }

    /** Is this an option of its own, that is in no map? */
    public function isOption(Name $name): bool
    {
        return ($name->group === 'options' || $name->group === 'site-options') && !$this->guards($name);
    }

    /**
     * The map that was read; a lease takes the place of missing `alloptions`, an empty map that of missing `notoptions`.
     *
     * @return array<array-key, mixed>|null
     */
    public function take(Space $space, Name $name, ?string $raw): ?array
    {
        $this->forget($space, $name);
        for ($try = 0; $try < self::TRIES; $try++) {
            $map = self::map($raw);
            if ($map !== null) {
                $this->bases[self::id($space, $name)] = [(string) $raw, $map, null];
                return $map;
            }
            $isAll = $name->key === self::ALL;
            $lease = self::record($isAll ? null : []);
            $answer = $this->exchange($space, $name, $raw, $lease, $isAll ? self::LEASE_MS : 0, false);
            if ($answer === null || $answer instanceof RequestFailed) {
                return null;
            }
            [$isSet, $raw] = $answer;
            if ($isSet) {
                $this->leases[self::id($space, $name)] = $lease;
                if (!$isAll) {
                    $this->bases[self::id($space, $name)] = [$lease, [], null];
                }
                return null;
            }
        }
        return null;
    }

    /**
     * Stores a map that was read from the database because it was missing here.
     *
     * @param array<array-key, mixed> $map
     * @return bool|null null when the daemon cannot be asked
     */
    public function add(Space $space, Name $name, array $map): ?bool
    {
        $lease = $this->leases[self::id($space, $name)] ?? null;
        $this->forget($space, $name);
        $record = self::record($map);
        $answer = $this->exchange($space, $name, $lease, $record, invalidates: false);
        if ($answer === null) {
            return null;
        }
        $isSet = !$answer instanceof RequestFailed && $answer[0];
        if ($isSet) {
            $this->bases[self::id($space, $name)] = [$record, $map, null];
        }
        return $isSet;
    }

    /**
     * Stores what was changed in a map.
     *
     * @param array<array-key, mixed> $map
     * @return array<array-key, mixed>|null the map as it is now, with others' changes; null when the daemon cannot be asked
     */
    public function set(Space $space, Name $name, array $map): ?array
    {
        $base = $this->bases[self::id($space, $name)] ?? null;
        if ($base === null) {
            return $this->setWithoutBase($space, $name, $map);
        }
        $after = $this->replace($space, $name, $map, ...$base);
        if ($name->key === self::ALL) {
            foreach (array_keys(array_diff_key($map, $base[2] ?? $base[1])) as $option) {
                $this->created($space, new Name($name->group, $option));
            }
        }
        return $after;
    }

    /** The caller reads the map as it was stored last, with others' changes. */
    public function seen(Space $space, Name $name): void
    {
        $id = self::id($space, $name);
        if (isset($this->bases[$id])) {
            $this->bases[$id][2] = null;
        }
    }

    /** An option exists from now on. */
    public function created(Space $space, Name $option): void
    {
        $network = $option->group === 'site-options' ? explode(':', $option->key, 2) : [];
        $list = new Name($option->group, isset($network[1]) ? "$network[0]:notoptions" : 'notoptions');
        $raw = $space->read([$list])[0] ?? null;
        for ($try = 0; $try < self::TRIES; $try++) {
            $map = self::map($raw);
            if ($map === null) {
                return;
            }
            unset($map[$network[1] ?? $option->key]);
            $answer = $this->exchange($space, $list, $raw, self::record($map));
            if ($answer === null) {
                return;
            }
            if ($answer instanceof RequestFailed) {
                break;
            }
            [$isSet, $raw] = $answer;
            if ($isSet) {
                return;
            }
        }
        $space->write([['kv.del', $list, []]]);
    }

    public function forget(Space $space, Name $name): void
    {
        unset($this->bases[self::id($space, $name)], $this->leases[self::id($space, $name)]);
    }

    public function forgetAll(): void
    {
        $this->bases = $this->leases = [];
    }

    /**
     * @param array<array-key, mixed> $map
     * @param array<array-key, mixed> $theirs what the daemon had last
     * @param array<array-key, mixed>|null $behind what it was made from, if that is something else
     * @return array<array-key, mixed>|null
     */
    private function replace(Space $space, Name $name, array $map, string $against, array $theirs, ?array $behind): ?array
    {
        $inHand = $map;
        $isMerged = $behind !== null;
        $before = $behind ?? $theirs;
        $changed = array_filter(
            $map,
            static fn ($value, $key) => !array_key_exists($key, $before) || $before[$key] !== $value,
            ARRAY_FILTER_USE_BOTH,
        );
        $removed = array_diff_key($before, $map);
        // What someone did not find may have been created meanwhile, so no names are added to those of missing options.
        $applied = static fn (array $theirs): array => array_diff_key(
            $name->key === self::ALL ? array_replace($theirs, $changed) : $theirs,
            $removed,
        );
        if ($isMerged) {
            $map = $applied($theirs);
        }
        $this->forget($space, $name);
        $this->bases[self::id($space, $name)] = [$against, $theirs, $inHand]; // so a map in hand is never stored whole
        for ($try = 0; $try < self::TRIES; $try++) {
            $record = self::record($map);
            $answer = $this->exchange($space, $name, $against, $record);
            if ($answer === null) {
                return null;
            }
            if ($answer instanceof RequestFailed) { // too large: better none than an old one
                break;
            }
            [$isSet, $current] = $answer;
            if ($isSet) {
                $this->bases[self::id($space, $name)] = [$record, $map, $isMerged ? $inHand : null];
                return $map;
            }
            if ($current === null) { // flushed: whoever needs it reads the database
                return $name->key === self::ALL ? $map : array_diff_key($map, $changed);
            }
            $theirs = self::map($current);
            if ($theirs === null) { // someone reads the database, perhaps since before our change
                $removal = $space->write([['kv.del_if_eq', $name, ['value' => $current]]]);
                if (($removal[0] ?? null) !== false) {
                    return $map;
                }
                continue;
            }
            $isMerged = true;
            $map = $applied($theirs);
            if ($map === $theirs) {
                $this->bases[self::id($space, $name)] = [$current, $map, $inHand];
                return $map;
            }
            $against = $current;
        }
        $space->write([['kv.del', $name, []]]);
        return $map;
    }

    /**
     * @param array<array-key, mixed> $map
     * @return array<array-key, mixed>|null
     */
    private function setWithoutBase(Space $space, Name $name, array $map): ?array
    {
        if (isset($this->leases[self::id($space, $name)])) {
            return $this->add($space, $name, $map) === null ? null : $map;
        }
        $record = self::record($map);
        $answer = $this->exchange($space, $name, null, $record);
        $theirs = is_array($answer) && !$answer[0] ? self::map($answer[1]) : null;
        if ($theirs !== null && $name->key !== self::ALL) {
            $this->bases[self::id($space, $name)] = [$answer[1], $theirs, $map];
            return $theirs;
        }
        if (is_array($answer) && !$answer[0]) { // of a caller who did not look first
            $answer = $space->write([['kv.set', $name, ['value' => $record]]]);
        }
        if ($answer === null) {
            return null;
        }
        $this->bases[self::id($space, $name)] = [$record, $map, null];
        return $map;
    }

    /**
     * Puts a record in the place of another, or of none.
     *
     * @return array{bool, string|null}|RequestFailed|null was it, and what was there; null when the daemon cannot be asked
     */
    private function exchange(
        Space $space,
        Name $name,
        ?string $old,
        string $new,
        int $ttlMs = 0,
        bool $invalidates = true,
    ): array|RequestFailed|null {
        $condition = $old === null ? ['nx' => true] : ['ifeq' => $old];
        $setting = ['value' => $new, 'ttl_ms' => $ttlMs, 'get' => true] + $condition;
        return $space->write([['kv.set', $name, $setting]], $invalidates)[0] ?? null;
    }

    /** @param array<array-key, mixed>|null $map null for a lease */
    private static function record(?array $map): string
    {
        return serialize([bin2hex(random_bytes(8)), $map]); // never twice the same
    }

    /** @return array<array-key, mixed>|null null for a lease, and for nothing */
    private static function map(?string $raw): ?array
    {
        $record = $raw === null ? null : @unserialize($raw);
        return is_array($record) && is_array($record[1] ?? null) ? $record[1] : null;
    }

    private static function id(Space $space, Name $name): string
    {
        return "$space->bucket\0$name->group\0$name->key";
    }
}
