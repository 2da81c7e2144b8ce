<?php

declare(strict_types=1);

namespace Coatcheck\Symfony\Tests;

use Psr\Log\AbstractLogger;

/**
 * Keeps what was logged, with its placeholders filled in.
 */
final class MemoryLogger extends AbstractLogger
{
    /** @var list<string> */
    public array $lines = [];

    public function log($level, $message, array $context = []): void
    {
        $texts = array_filter($context, is_scalar(...));
        $names = array_map(static fn (string $name) => "{{$name}}", array_keys($texts));
        $this->lines[] = $level . ': ' . str_replace($names, array_map(strval(...), $texts), (string) $message);
    }
}
