<?php

declare(strict_types=1);

namespace Coatcheck;

/**
 * A request that failed. What has no class of its own, a fault of the daemon, is this one.
 *
 * Where the extension is loaded it defines this class, and this file is never read.
 */
class Exception extends \RuntimeException
{
    /** Why, in one word, when the daemon gave one: superseded, not_holder, wait_over, ... */
    public string $reason = '';

    /** @var array<string, mixed> what the daemon says about it; docs/protocol.md has the fields */
    public array $details = [];
}
