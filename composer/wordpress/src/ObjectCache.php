<?php

declare(strict_types=1);

namespace Coatcheck\WordPress;

use Coatcheck\Client\Exception\RequestFailed;

// phpcs:disable PSR1.Methods.CamelCapsMethodName -- the names are WordPress's

/**
 * WordPress's object cache: a copy of this PHP request's own before the daemon.
 *
 * Guarantees:
 * - add, replace, incr and decr are decided in the daemon, in one step.
 * - A flush of a site or of a group empties that and nothing else, for every process, in constant time.
 * - When the daemon cannot be asked, the request goes on with its own copy, as without a persistent cache. Changes that
 *   the daemon did not learn of are noted, and what it has is flushed before it is used again.
 *
 * Does not guarantee: that a value is what another request has set since this one first read it, unless it is asked for
 * with $force.
 */
final class ObjectCache
{
    private const FEATURES = [
        'add_multiple', 'set_multiple', 'get_multiple', 'delete_multiple', 'flush_runtime', 'flush_group',
    ];

    /** Who wants a value for longer gets it for this long, some 31 700 years; in milliseconds it is still an integer. */
    private const EXPIRE_MAX_SECONDS = 10 ** 12;

    public int $cache_hits = 0;
    public int $cache_misses = 0;

    private readonly LocalCopy $local;
    private readonly Groups $groups;
    private readonly Codec $codec;
    private readonly OptionsGuard $options;

    /**
     * @param int|null $site the present one of a network; null for a single site
     */
    public function __construct(
        private readonly Spaces $spaces,
        private readonly Foresight $foresight,
        private ?int $site = null,
        private readonly int $mainSite = 1,
    ) {
        $this->local = new LocalCopy();
        $this->groups = new Groups();
        $this->codec = new Codec();
        $this->options = new OptionsGuard();
    }

    public static function ofThisSite(): self
    {
        $spaces = Spaces::of(Settings::ofThisSite());
        $isNetwork = is_multisite();
        return new self(
            $spaces,
            new Foresight($spaces, PageKind::ofThisRequest($isNetwork)),
            $isNetwork ? get_current_blog_id() : null,
            defined('BLOG_ID_CURRENT_SITE') ? (int) constant('BLOG_ID_CURRENT_SITE') : 1,
        );
    }

    public function add(mixed $key, mixed $data, mixed $group = '', int $expire = 0): bool
    {
        return $this->isValid($key, __FUNCTION__) && $this->add_multiple([$key => $data], $group, $expire)[$key];
    }

    /**
     * @param array<array-key, mixed> $data
     * @return array<array-key, bool>
     */
    public function add_multiple(array $data, mixed $group = '', int $expire = 0): array
    {
        return function_exists('wp_suspend_cache_addition') && wp_suspend_cache_addition()
            ? array_fill_keys(array_keys($data), false)
            : $this->store('nx', $data, $group, $expire);
    }

    public function replace(mixed $key, mixed $data, mixed $group = '', int $expire = 0): bool
    {
        return $this->isValid($key, __FUNCTION__) && $this->store('xx', [$key => $data], $group, $expire)[$key];
    }

    public function set(mixed $key, mixed $data, mixed $group = '', int $expire = 0): bool
    {
        return $this->isValid($key, __FUNCTION__) && $this->set_multiple([$key => $data], $group, $expire)[$key];
    }

    /**
     * @param array<array-key, mixed> $data
     * @return array<array-key, bool>
     */
    public function set_multiple(array $data, mixed $group = '', int $expire = 0): array
    {
        return $this->store('', $data, $group, $expire);
    }

    public function get(mixed $key, mixed $group = '', bool $force = false, mixed &$found = null): mixed
    {
        $found = false;
        if (!$this->isValid($key, __FUNCTION__)) {
            return false;
        }
        $values = $this->fetch([$this->name($group, $key)], $force);
        $found = $values !== [];
        return $found ? $values[$key] : false;
    }

    /**
     * @param array<array-key, mixed> $keys
     * @return array<array-key, mixed>
     */
    public function get_multiple(array $keys, mixed $group = '', bool $force = false): array
    {
        $valid = array_filter($keys, fn ($key) => $this->isValid($key, 'get_multiple'));
        $values = $this->fetch(array_map(fn ($key) => $this->name($group, $key), array_values($valid)), $force);
        $all = [];
        foreach ($keys as $key) {
            $all[$key] = $values[$key] ?? false;
        }
        return array_replace($all, $values);
    }

    public function delete(mixed $key, mixed $group = ''): bool
    {
        return $this->isValid($key, __FUNCTION__) && $this->delete_multiple([$key], $group)[$key];
    }

    /**
     * @param array<array-key, mixed> $keys
     * @return array<array-key, bool>
     */
    public function delete_multiple(array $keys, mixed $group = ''): array
    {
        $deleted = [];
        $calls = [];
        foreach ($keys as $key) {
            $deleted[$key] = false;
            if (!$this->isValid($key, 'delete_multiple')) {
                continue;
            }
            $name = $this->name($group, $key);
            $space = $this->spaceOf($name);
            $deleted[$key] = $this->local->has($space, $name);
            $this->local->remove($space, $name);
            $this->foresight->forget($space, $name);
            $this->options->forget($this->spaces->get($space), $name);
            if ($this->groups->isPersistent($name->group)) {
                $calls[$key] = ['kv.del', $name, []];
            }
        }
        $answers = $calls === [] ? [] : $this->spaces->get($this->spaceOf(reset($calls)[1]))->write($calls);
        return array_replace($deleted, array_map(static fn ($answer) => $answer === 1, $answers ?? []));
    }

    public function incr(mixed $key, int $offset = 1, mixed $group = ''): int|float|false
    {
        if (!$this->isValid($key, __FUNCTION__)) {
            return false;
        }
        $name = $this->name($group, $key);
        $space = $this->spaceOf($name);
        $this->foresight->forget($space, $name);
        $new = $this->groups->isPersistent($name->group) ? $this->addInDaemon($space, $name, $offset) : null;
        if ($new === null && $this->local->has($space, $name)) {
            $new = Counters::add($this->local->get($space, $name), $offset);
        }
        if ($new === null || $new === false) {
            $this->local->remove($space, $name);
            return false;
        }
        $this->local->set($space, $name, $new);
        return $new;
    }

    public function decr(mixed $key, int $offset = 1, mixed $group = ''): int|float|false
    {
        return $this->incr($key, -max($offset, -PHP_INT_MAX), $group);
    }

    /**
     * Empties this site. What the sites of a network share goes with its main site.
     *
     * @return bool does the daemon know?
     */
    public function flush(): bool
    {
        $this->flush_runtime();
        $isFlushed = $this->spaces->get($this->site === null ? Spaces::SHARED : (string) $this->site)->flush();
        if ($this->site === $this->mainSite) {
            $isFlushed = $this->spaces->shared()->flush() && $isFlushed;
        }
        return $isFlushed;
    }

    /** Empties this request's own copy. A daemon that could not be asked is asked again. */
    public function flush_runtime(): bool
    {
        $this->local->clear();
        $this->foresight->forgetAll();
        $this->options->forgetAll();
        $this->spaces->forget();
        $this->spaces->daemon->tryAgain();
        return true;
    }

    public function flush_group(mixed $group): bool
    {
        $group = self::group($group);
        $space = $this->groups->isGlobal($group) || $this->site === null ? Spaces::SHARED : (string) $this->site;
        $this->local->removeGroup($space, $group);
        $this->foresight->forgetAll();
        $this->options->forgetAll();
        return !$this->groups->isPersistent($group) || $this->spaces->get($space)->flushGroup($group);
    }

    public function supports(mixed $feature): bool
    {
        return in_array($feature, self::FEATURES, true);
    }

    public function close(): bool
    {
        $this->foresight->remember();
        return true;
    }

    /** @param string|array<array-key, string> $groups */
    public function add_global_groups(mixed $groups): void
    {
        $this->groups->addGlobal((array) $groups);
    }

    /** @param string|array<array-key, string> $groups */
    public function add_non_persistent_groups(mixed $groups): void
    {
        $this->groups->addNonPersistent((array) $groups);
    }

    public function switch_to_blog(mixed $site): void
    {
        if ($this->site !== null) {
            $this->site = (int) $site;
        }
    }

    /** As WordPress before 3.5 wanted it: what is not shared is read anew. */
    public function reset(): void
    {
        if ($this->site !== null) {
            $this->local->removeSpace((string) $this->site);
        }
    }

    /** @param string|array<array-key, string> $salt */
    public function get_salted(mixed $key, mixed $group, mixed $salt): mixed
    {
        return $this->get_multiple_salted([$key], $group, $salt)[$key];
    }

    /** @param string|array<array-key, string> $salt */
    public function set_salted(mixed $key, mixed $data, mixed $group, mixed $salt, int $expire = 0): bool
    {
        return $this->set($key, ['data' => $data, 'salt' => self::salt($salt)], $group, $expire);
    }

    /**
     * @param array<array-key, mixed> $keys
     * @param string|array<array-key, string> $salt
     * @return array<array-key, mixed>
     */
    public function get_multiple_salted(array $keys, mixed $group, mixed $salt): array
    {
        $salt = self::salt($salt);
        return array_map(
            static fn ($value) => is_array($value) && ($value['salt'] ?? null) === $salt ? $value['data'] ?? false : false,
            $this->get_multiple($keys, $group),
        );
    }

    /**
     * @param array<array-key, mixed> $data
     * @param string|array<array-key, string> $salt
     * @return array<array-key, bool>
     */
    public function set_multiple_salted(array $data, mixed $group, mixed $salt, int $expire = 0): array
    {
        $salt = self::salt($salt);
        $salted = array_map(static fn ($value) => ['data' => $value, 'salt' => $salt], $data);
        return $this->set_multiple($salted, $group, $expire);
    }

    /** @return array{hits: int, misses: int, round_trips: int, trouble: string|null} of this request */
    public function info(): array
    {
        return [
            'hits' => $this->cache_hits,
            'misses' => $this->cache_misses,
            'round_trips' => $this->spaces->daemon->roundTrips,
            'trouble' => $this->spaces->daemon->trouble(),
        ];
    }

    /** Prints what happened in this request, as WordPress's own does. */
    public function stats(): void
    {
        printf(
            '<p><strong>Cache hits:</strong> %d<br><strong>Cache misses:</strong> %d<br>'
                . '<strong>Round trips to coatcheck:</strong> %d</p><ul>',
            $this->cache_hits,
            $this->cache_misses,
            $this->spaces->daemon->roundTrips,
        );
        foreach ($this->local->sizes() as $group => $values) {
            printf('<li><strong>Group:</strong> %s (%d)</li>', htmlspecialchars((string) $group), $values);
        }
        echo '</ul>';
    }

    /**
     * Values of one group, each from the nearest place that has it.
     *
     * @param list<Name> $names
     * @return array<array-key, mixed> those that there are, by their keys
     */
    private function fetch(array $names, bool $force): array
    {
        $values = [];
        $wanted = [];
        foreach ($names as $name) {
            $space = $this->spaceOf($name);
            $isPersistent = $this->groups->isPersistent($name->group);
            if ((!$force || !$isPersistent) && $this->local->has($space, $name)) {
                $values[$name->key] = $this->local->get($space, $name);
                $this->options->seen($this->spaces->get($space), $name);
            } elseif ($isPersistent) {
                $wanted[] = $name;
            }
        }
        $values += $wanted === [] ? [] : $this->fetchFromDaemon($this->spaceOf($wanted[0]), $wanted, $force);
        $this->cache_hits += count($values);
        $this->cache_misses += count($names) - count($values);
        return $values;
    }

    /**
     * @param list<Name> $names
     * @return array<array-key, mixed>
     */
    private function fetchFromDaemon(string $space, array $names, bool $force): array
    {
        $stored = [];
        $unknown = [];
        foreach ($names as $index => $name) {
            $told = $force ? null : $this->foresight->tell($space, $name);
            if ($told === null) {
                $unknown[$index] = $name;
            } else {
                $stored[$index] = $told[0];
            }
        }
        if ($unknown !== []) {
            $read = $this->spaces->get($space)->read(array_values($unknown));
            if ($read !== null) {
                $stored += array_combine(array_keys($unknown), $read);
            }
        }
        $values = [];
        foreach ($names as $index => $name) {
            if (array_key_exists($index, $stored)) {
                $this->take($space, $name, $stored[$index]);
            }
            if ($this->local->has($space, $name)) {
                $values[$name->key] = $this->local->get($space, $name);
            }
        }
        return $values;
    }

    /** Takes what the daemon has, or that it has nothing, into the local copy. */
    private function take(string $space, Name $name, ?string $raw): void
    {
        if ($this->options->guards($name)) {
            $map = $this->options->take($this->spaces->get($space), $name, $raw);
            $value = $map === null ? null : [$map];
        } else {
            $value = $raw === null ? null : $this->codec->decode($raw);
        }
        if ($value === null) {
            $this->local->remove($space, $name);
        } else {
            $this->local->set($space, $name, $value[0]);
        }
    }

    /**
     * @param string $condition nx: only what is missing; xx: only what is there; or empty
     * @param array<array-key, mixed> $data
     * @return array<array-key, bool>
     */
    private function store(string $condition, array $data, mixed $group, int $expire): array
    {
        $stored = array_fill_keys(array_keys($data), false);
        $calls = [];
        foreach ($data as $key => $value) {
            if (!$this->isValid($key, 'set_multiple')) {
                continue;
            }
            $name = $this->name($group, $key);
            $space = $this->spaceOf($name);
            $this->foresight->forget($space, $name);
            if ($this->groups->isPersistent($name->group) && $this->options->guards($name) && is_array($value)) {
                $stored[$key] = $this->storeOptions($condition, $space, $name, $value);
                continue;
            }
            $encoded = $this->groups->isPersistent($name->group) ? $this->codec->encode($value) : null;
            if ($encoded === null) {
                $stored[$key] = $this->storeLocally($condition, $space, $name, $value);
                $this->removeWhatIsOlder($condition, $space, $name);
                continue;
            }
            $calls[$key] = ['kv.set', $name, self::setting($encoded, $expire, $condition)];
        }
        if ($calls !== []) {
            $space = $this->spaceOf(reset($calls)[1]);
            $answers = $this->spaces->get($space)->write($calls, $condition !== 'nx');
            foreach ($calls as $key => [, $name]) {
                $answer = $answers === null ? null : $answers[$key];
                $stored[$key] = $this->takeAnswer($answer, $condition, $space, $name, $data[$key]);
            }
        }
        return $stored;
    }

    /** @param bool|RequestFailed|null $answer null when the daemon could not be asked */
    private function takeAnswer(mixed $answer, string $condition, string $space, Name $name, mixed $value): bool
    {
        if ($answer === null) {
            return $this->storeLocally($condition, $space, $name, $value);
        }
        if ($answer instanceof RequestFailed) {
            $this->spaces->daemon->log($answer->getMessage());
            $this->storeLocally($condition, $space, $name, $value);
            $this->removeWhatIsOlder($condition, $space, $name);
            return false;
        }
        if ($answer) {
            $this->local->set($space, $name, $value);
            if ($condition !== 'nx' && $this->options->isOption($name)) {
                $this->options->created($this->spaces->get($space), $name);
            }
        } elseif ($condition === 'xx') {
            $this->local->remove($space, $name);
        }
        return $answer;
    }

    /** As WordPress's own cache does it. */
    private function storeLocally(string $condition, string $space, Name $name, mixed $value): bool
    {
        if ($condition !== '' && $this->local->has($space, $name) !== ($condition === 'xx')) {
            return false;
        }
        $this->local->set($space, $name, $value);
        return true;
    }

    /** What the daemon has is older than what could not be stored there. */
    private function removeWhatIsOlder(string $condition, string $space, Name $name): void
    {
        if ($condition !== 'nx' && $this->groups->isPersistent($name->group)) {
            $this->spaces->get($space)->write([['kv.del', $name, []]]);
        }
    }

    /** @param array<array-key, mixed> $map */
    private function storeOptions(string $condition, string $space, Name $name, array $map): bool
    {
        if ($condition === 'nx') {
            $isStored = $this->options->add($this->spaces->get($space), $name, $map);
            if ($isStored) {
                $this->local->set($space, $name, $map);
            }
            return $isStored ?? $this->storeLocally($condition, $space, $name, $map);
        }
        if ($condition === 'xx' && $this->fetch([$name], true) === []) {
            return false;
        }
        $this->local->set($space, $name, $this->options->set($this->spaces->get($space), $name, $map) ?? $map);
        return true;
    }

    /** @return int|float|false|null the new number; false when it is missing; null when the daemon cannot be asked */
    private function addInDaemon(string $space, Name $name, int $offset): int|float|false|null
    {
        $space = $this->spaces->get($space);
        $answers = $space->write([['kv.incr_by', $name, ['delta' => $offset, 'missing' => 'fail', 'floor' => 0]]]);
        if ($answers === null) {
            return null;
        }
        if (!$answers[0] instanceof RequestFailed) {
            return $answers[0] ?? false;
        }
        do { // it is no integer of the daemon's
            $raw = $space->read([$name])[0] ?? null;
            if ($raw === null) {
                return $this->spaces->daemon->trouble() === null ? false : null;
            }
            $new = Counters::add($this->codec->decode($raw)[0] ?? 0, $offset);
            $setting = ['value' => (string) $this->codec->encode($new), 'ifeq' => $raw, 'keepttl' => true];
            $isSet = $space->write([['kv.set', $name, $setting]])[0] ?? null;
        } while ($isSet === false);
        return $isSet === true ? $new : null;
    }

    private function spaceOf(Name $name): string
    {
        return $this->site === null || $this->groups->isGlobal($name->group) ? Spaces::SHARED : (string) $this->site;
    }

    private function name(mixed $group, int|string $key): Name
    {
        return new Name(self::group($group), $key);
    }

    private static function group(mixed $group): string
    {
        return empty($group) ? 'default' : (string) $group;
    }

    /** @return array<string, mixed> */
    private static function setting(string $encoded, int $expire, string $condition): array
    {
        return ['value' => $encoded]
            + ($expire === 0 ? [] : ['ttl_ms' => max(1, min($expire, self::EXPIRE_MAX_SECONDS) * 1000)])
            + ($condition === '' ? [] : [$condition => true]);
    }

    /** @param string|array<array-key, string> $salt */
    private static function salt(mixed $salt): string
    {
        return is_array($salt) ? implode(':', $salt) : (string) $salt;
    }

    private function isValid(mixed $key, string $method): bool
    {
        if (is_int($key) || (is_string($key) && trim($key) !== '')) {
            return true;
        }
        if (function_exists('_doing_it_wrong')) {
            $what = is_string($key) ? 'an empty string' : gettype($key);
            _doing_it_wrong("WP_Object_Cache::$method", "The key of a value must be an integer or a text, not $what.", '6.1.0');
        }
        return false;
    }
}
