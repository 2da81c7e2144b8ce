<?php

declare(strict_types=1);

namespace Coatcheck\WordPress;

/**
 * The file object-cache.php in wp-content, which WordPress loads in the place of its own cache. One that is not ours is
 * never touched.
 */
final class DropIn
{
    private const MARK = 'Plugin Name: coatcheck object cache (drop-in)';

    /**
     * @param string $source the file of the package
     * @param string $target where WordPress looks for it
     */
    public function __construct(private readonly string $source, public readonly string $target)
    {
    }

    public function exists(): bool
    {
        return is_file($this->target);
    }

    public function isOurs(): bool
    {
        return $this->exists() && str_contains((string) file_get_contents($this->target, false, null, 0, 2048), self::MARK);
    }

    public function isCurrent(): bool
    {
        return $this->isOurs() && file_get_contents($this->target) === file_get_contents($this->source);
    }

    /** @throws \RuntimeException when it cannot be put there, with what to do */
    public function install(): void
    {
        if ($this->exists() && !$this->isOurs()) {
            throw new \RuntimeException(
                "$this->target belongs to another plugin: disable its object cache first, or remove the file"
            );
        }
        $temporary = "$this->target." . bin2hex(random_bytes(4));
        $isDone = @copy($this->source, $temporary) && @rename($temporary, $this->target);
        if (!$isDone) {
            @unlink($temporary);
            throw new \RuntimeException(
                "cannot write $this->target: copy $this->source there by hand, then flush every site"
            );
        }
        self::forgetCompiled($this->target);
    }

    /** @throws \RuntimeException when it cannot be removed, with what to do */
    public function remove(): void
    {
        if ($this->exists() && !$this->isOurs()) {
            throw new \RuntimeException("$this->target belongs to another plugin: it stays");
        }
        if ($this->exists() && !@unlink($this->target)) {
            throw new \RuntimeException("cannot remove $this->target: remove it by hand");
        }
        self::forgetCompiled($this->target);
    }

    private static function forgetCompiled(string $file): void
    {
        clearstatcache(true, $file);
        if (function_exists('opcache_invalidate')) {
            @opcache_invalidate($file, true);
        }
    }
}
