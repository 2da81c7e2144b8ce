<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Tests\Support;

use Illuminate\Contracts\Queue\ShouldBeUnique;

/**
 * A job that is in the queue once.
 */
final class UniqueJob implements ShouldBeUnique
{
    public int $uniqueFor = 3600;

    public int $releases = 0;

    public function __construct(public readonly string $uniqueId)
    {
    }

    public function release(int $seconds): void
    {
        $this->releases++;
    }
}
