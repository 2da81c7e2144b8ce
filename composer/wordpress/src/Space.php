<?php

declare(strict_types=1);

namespace Coatcheck\WordPress;

use Coatcheck\Client\Exception\RequestFailed;
use Coatcheck\Client\Exception\TooLargeException;

/**
 * The values of one site, or those that all sites of a network share: one bucket of the daemon.
 *
 * Every request reads the generations as well, in the same round trip, and is repeated when they are not those it was made
 * for. So a process never reads or deletes what a flush by another has left behind.
 */
final class Space
{
    private const GENERATIONS = 'generations';

    /** How often a request is repeated because someone flushed meanwhile. */
    private const TRIES = 20;

    /** How many names one call reads; the daemon takes 16,384 keys, and the generations are one of them. */
    private const NAMES_MAX = 16_000;

    private ?Generations $generations = null;

    public function __construct(
        private readonly Daemon $daemon,
        private readonly MissedWrites $missedWrites,
        public readonly string $bucket,
    ) {
    }

    /**
     * @param list<Name> $names
     * @return list<string|null>|null what is stored, null for what is not; null when the daemon cannot be asked
     */
    public function read(array $names): ?array
    {
        for ($try = 0; $try < self::TRIES; $try++) {
            if (!$this->prepare()) {
                return null;
            }
            $answers = $this->daemon->ask(array_map($this->reading(...), array_chunk($names, self::NAMES_MAX)));
            if ($answers === null) {
                return null;
            }
            foreach ($answers as $answer) {
                if ($answer instanceof TooLargeException && count($names) > 1) {
                    return $this->readInHalves($names);
                }
                if ($answer instanceof RequestFailed) {
                    $this->daemon->log($answer->getMessage());
                    return array_fill(0, count($names), null);
                }
            }
            $values = array_map($this->take(...), $answers);
            if (!in_array(null, $values, true)) {
                return array_merge(...$values);
            }
        }
        return array_fill(0, count($names), null);
    }

    /**
     * Changes values, in one round trip.
     *
     * @param array<array-key, array{string, Name, array<string, mixed>}> $calls method, name, its other params
     * @param bool $invalidates is what the daemon has wrong if it does not learn of this?
     * @return array<array-key, mixed>|null the answers; a RequestFailed in the place of one that was refused; null when the
     *     daemon cannot be asked
     */
    public function write(array $calls, bool $invalidates = true): ?array
    {
        for ($try = 0; $try < self::TRIES && $this->prepare(); $try++) {
            $requests = [$this->plain('kv.get', self::GENERATIONS)];
            foreach ($calls as [$method, $name, $params]) {
                $params += ['key' => $this->generations->keyOf($name), 'bucket' => $this->bucket];
                $requests[] = [$method, $params];
            }
            $answers = $this->daemon->ask($requests);
            if ($answers === null) {
                break;
            }
            if (array_shift($answers) === $this->generations->raw) {
                return array_combine(array_keys($calls), $answers);
            }
            $this->generations = null; // someone flushed
        }
        if ($invalidates) {
            $this->missedWrites->note($this->bucket);
        }
        return null;
    }

    /** Empties the space, in constant time. @return bool was it? */
    public function flush(): bool
    {
        $this->generations = null;
        $isEmpty = ($this->daemon->ask($this->flushing($this->missedWrites->latest($this->bucket)))[0] ?? null) === true;
        if (!$isEmpty) {
            $this->missedWrites->note($this->bucket);
        }
        return $isEmpty;
    }

    /** Empties one group, in constant time. @return bool was it? */
    public function flushGroup(string $group): bool
    {
        for ($try = 0; $try < self::TRIES && $this->prepare(); $try++) {
            $after = $this->generations->afterFlushOf($group);
            $setting = ['value' => $after->raw, 'ifeq' => $this->generations->raw];
            $answers = $this->daemon->ask([$this->plain('kv.set', self::GENERATIONS, $setting)]);
            if (($answers[0] ?? null) === true) {
                $this->generations = $after;
                return true;
            }
            $this->generations = null; // someone else was faster
        }
        $this->missedWrites->note($this->bucket);
        return false;
    }

    /**
     * Values whose keys know no generation, in the round trip that learns the generations if that is still to come.
     *
     * @return string|null null when it is missing or the daemon cannot be asked
     */
    public function readPlain(string $key): ?string
    {
        if ($this->generations === null) {
            return $this->learn([$key])[0] ?? null;
        }
        $answer = $this->daemon->ask([$this->plain('kv.get', $key)])[0] ?? null;
        return is_string($answer) ? $answer : null;
    }

    public function writePlain(string $key, string $value, int $ttlMs): void
    {
        $this->daemon->ask([$this->plain('kv.set', $key, ['value' => $value, 'ttl_ms' => $ttlMs])]);
    }

    /**
     * The request that reads these values, for whoever asks several spaces at once.
     *
     * @param list<Name> $names no more than one call takes
     * @param string $guess the generations, as long as they are not known
     * @return array{string, array<string, mixed>}|null null when it cannot be made
     */
    public function readingBy(string $guess, array $names): ?array
    {
        if ($this->generations === null && $this->missedWrites->latest($this->bucket) === null) {
            $this->generations = Generations::parse($guess);
        } else {
            $this->prepare();
        }
        return $this->generations === null ? null : $this->reading($names);
    }

    /** The generations as they are known, to be guessed by a later request. */
    public function generations(): ?string
    {
        return $this->generations?->raw;
    }

    /**
     * Takes the answer to a reading.
     *
     * @return list<string|null>|null null when it was made for other generations; they are forgotten
     */
    public function take(mixed $answer): ?array
    {
        if (is_array($answer) && $this->generations !== null && array_shift($answer) === $this->generations->raw) {
            return $answer;
        }
        $this->generations = null;
        return null;
    }

    /** Whatever is known about it is read anew. */
    public function forget(): void
    {
        $this->generations = null;
    }

    private function prepare(): bool
    {
        if ($this->generations === null) {
            $this->learn([]);
        }
        return $this->generations !== null;
    }

    /**
     * Reads the generations, after a flush if the daemon was not told of a change.
     *
     * @param list<string> $plainKeys what is read along
     * @return list<string|null> their values
     */
    private function learn(array $plainKeys): array
    {
        $note = $this->missedWrites->latest($this->bucket);
        $keys = [self::GENERATIONS, self::dealtWith($note), ...$plainKeys];
        $values = $this->daemon->ask([['kv.mget', ['keys' => $keys, 'bucket' => $this->bucket]]])[0] ?? null;
        if (!is_array($values)) {
            return [];
        }
        [$raw, $isDealtWith] = array_splice($values, 0, 2);
        if ($note !== null && $isDealtWith === null) {
            if ($this->daemon->ask($this->flushing($note)) === null) {
                return [];
            }
            $raw = null;
            $values = [];
        }
        $this->generations = ($raw === null ? null : Generations::parse($raw)) ?? $this->begin($raw);
        return $values;
    }

    /**
     * The requests that empty the bucket and put down that a note is dealt with.
     *
     * @return list<array{string, array<string, mixed>}>
     */
    private function flushing(?string $note): array
    {
        $flush = ['kv.flush', ['bucket' => $this->bucket]];
        return $note === null ? [$flush] : [$flush, $this->plain('kv.set', self::dealtWith($note), ['value' => '1'])];
    }

    private static function dealtWith(?string $note): string
    {
        return "dealt with:$note";
    }

    /** New generations, or those of whoever was faster. @param string|null $broken what is in their place */
    private function begin(?string $broken): ?Generations
    {
        $new = Generations::begin();
        $condition = $broken === null ? ['nx' => true] : ['ifeq' => $broken];
        $setting = ['value' => $new->raw, 'get' => true] + $condition;
        $answer = $this->daemon->ask([$this->plain('kv.set', self::GENERATIONS, $setting)])[0] ?? null;
        if (!is_array($answer)) {
            return null;
        }
        return $answer[0] ? $new : Generations::parse((string) $answer[1]);
    }

    /**
     * @param array<string, mixed> $params
     * @return array{string, array<string, mixed>}
     */
    private function plain(string $method, string $key, array $params = []): array
    {
        return [$method, $params + ['key' => $key, 'bucket' => $this->bucket]];
    }

    /**
     * @param list<Name> $names
     * @return array{string, array<string, mixed>}
     */
    private function reading(array $names): array
    {
        $keys = array_map($this->generations->keyOf(...), $names);
        return ['kv.mget', ['keys' => [self::GENERATIONS, ...$keys], 'bucket' => $this->bucket]];
    }

    /**
     * @param list<Name> $names
     * @return list<string|null>|null
     */
    private function readInHalves(array $names): ?array
    {
        [$first, $second] = array_chunk($names, intdiv(count($names) + 1, 2));
        $values = $this->read($first);
        $others = $values === null ? null : $this->read($second);
        return $others === null ? null : [...$values, ...$others];
    }
}
