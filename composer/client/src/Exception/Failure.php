<?php

declare(strict_types=1);

namespace Coatcheck\Client\Exception;

/**
 * What the classes of RequestFailed share.
 *
 * @internal
 */
trait Failure
{
    private bool $unknown = false;

    /**
     * @param array<string, mixed> $details
     *
     * @internal failures are made by the transports
     */
    final public static function because(
        string $message,
        array $details = [],
        bool $outcomeIsUnknown = false,
        ?\Throwable $previous = null,
    ): self {
        $failure = new self($message, 0, $previous);
        $failure->details = $details;
        $failure->reason = is_string($details['reason'] ?? null) ? $details['reason'] : '';
        $failure->unknown = $outcomeIsUnknown;
        return $failure;
    }

    public function reason(): string
    {
        return $this->reason;
    }

    public function details(): array
    {
        return $this->details;
    }

    public function outcomeIsUnknown(): bool
    {
        return $this->unknown;
    }
}
