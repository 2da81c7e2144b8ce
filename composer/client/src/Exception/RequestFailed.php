<?php

declare(strict_types=1);

namespace Coatcheck\Client\Exception;

/**
 * A request that did not get its result. Each failure has a class of its own.
 */
interface RequestFailed extends CoatcheckException
{
    /** Why, in one word, when the daemon gave one: superseded, not_holder, wait_over, ...; else empty. */
    public function reason(): string;

    /** @return array<string, mixed> what the daemon says about it; docs/protocol.md has the fields */
    public function details(): array;

    /**
     * True when the request may have been carried out all the same: it was sent and no answer came.
     * What carries a token (locks, session writes) may then be sent again with the same token.
     */
    public function outcomeIsUnknown(): bool;
}
