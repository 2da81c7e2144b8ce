<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Tests\Support;

use Psr\Log\AbstractLogger;

/**
 * A log that a test can read.
 */
final class RecordingLog extends AbstractLogger
{
    /** @var list<string> level, message and context as JSON */
    public array $lines = [];

    /** @param mixed[] $context */
    public function log($level, $message, array $context = []): void
    {
        $this->lines[] = "$level: $message " . json_encode($context, JSON_UNESCAPED_UNICODE);
    }
}
