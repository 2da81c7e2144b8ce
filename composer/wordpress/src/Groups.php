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

    /** @param array<array-key, string> $groups */
    public function addGlobal(array $groups): void
    {
        $this->global = array_fill_keys($groups, true) + $this->global;
    }

    /** @param array<array-key, string> $groups */
    public function addNonPersistent(array $groups): void
    {
        $this->nonPersistent = array_fill_keys($groups, true) + $this->nonPersistent;
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
