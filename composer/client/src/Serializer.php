<?php

declare(strict_types=1);

namespace Coatcheck\Client;

/**
 * PHP values as the daemon's strings and back: integers as their digits, so that incrBy() works on them, everything else
 * by serialize(), whose texts never begin as a number does.
 */
final class Serializer
{
    /**
     * @param bool|list<class-string> $allowedClasses whose objects may be read back, as of unserialize()
     */
    public function __construct(private readonly bool|array $allowedClasses = true)
    {
    }

    public function serialize(mixed $value): string
    {
        return is_int($value) ? (string) $value : serialize($value);
    }

    /** @throws \UnexpectedValueException when these bytes are not what serialize() made */
    public function unserialize(string $stored): mixed
    {
        if (preg_match('/^-?\d+$/D', $stored) === 1 && (string) (int) $stored === $stored) {
            return (int) $stored;
        }
        $value = @unserialize($stored, ['allowed_classes' => $this->allowedClasses]);
        if ($value === false && $stored !== 'b:0;') {
            throw new \UnexpectedValueException('the stored bytes are not a serialised value');
        }
        return $value;
    }
}
