<?php

declare(strict_types=1);

namespace Coatcheck\WordPress;

/**
 * The values as this PHP request knows them, as WordPress's own object cache keeps them: objects are cloned on their way
 * in and out, so nobody changes a value by changing what he got.
 */
final class LocalCopy
{
    /** @var array<array-key, array<array-key, array<array-key, mixed>>> by space, group and key */
    private array $values = [];

    public function has(string $space, Name $name): bool
    {
        return array_key_exists($name->key, $this->values[$space][$name->group] ?? []);
    }

    /** Only of one that is there. */
    public function get(string $space, Name $name): mixed
    {
        $value = $this->values[$space][$name->group][$name->key];
        return is_object($value) ? clone $value : $value;
    }

    public function set(string $space, Name $name, mixed $value): void
    {
        $this->values[$space][$name->group][$name->key] = is_object($value) ? clone $value : $value;
    }

    public function remove(string $space, Name $name): void
    {
        unset($this->values[$space][$name->group][$name->key]);
    }

    public function removeGroup(string $space, string $group): void
    {
        unset($this->values[$space][$group]);
    }

    public function removeSpace(string $space): void
    {
        unset($this->values[$space]);
    }

    public function clear(): void
    {
        $this->values = [];
    }

    /** @return array<string, int> how many values of each group there are */
    public function sizes(): array
    {
        $sizes = [];
        foreach ($this->values as $groups) {
            foreach ($groups as $group => $values) {
                $sizes[$group] = ($sizes[$group] ?? 0) + count($values);
            }
        }
        ksort($sizes);
        return $sizes;
    }
}
