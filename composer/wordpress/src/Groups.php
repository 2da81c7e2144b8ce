<?php

declare(strict_types=1);

namespace Coatcheck\WordPress;

/**
 * Which groups are shared by all sites of a network, and which never leave the PHP request. WordPress and its plugins
 * announce both when they start.
 */
final class Groups
{
    /** @var array<array-key, true> */
    private array $global = [];

    /** @var array<array-key, true> */
    private array $nonPersistent = [];

    /** @param string|array<array-key, string> $groups */
    public function addGlobal(string|array $groups): void
    {
        $this->global = array_fill_keys((array) $groups, true) + $this->global;
    }

    /** @param string|array<array-key, string> $groups */
    public function addNonPersistent(string|array $groups): void
    {
        $this->nonPersistent = array_fill_keys((array) $groups, true) + $this->nonPersistent;
    }

    public function isGlobal(string $group): bool
    {
        return isset($this->global[$group]);
    }

    public function isPersistent(string $group): bool
    {
        return !isset($this->nonPersistent[$group]);
    }
}
