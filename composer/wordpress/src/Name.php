<?php

declare(strict_types=1);

namespace Coatcheck\WordPress;

/**
 * What a value is called inside a space: its group and its key. As everywhere in WordPress the key 1 is the key "1".
 */
final class Name
{
    public readonly string $key;

    public function __construct(public readonly string $group, string|int $key)
    {
        $this->key = (string) $key;
    }
}
