<?php

declare(strict_types=1);

namespace Coatcheck\WordPress;

/**
 * The spaces of an installation: one for each site of a network and one that they share. A single site is its network,
 * and has one.
 */
final class Spaces
{
    public const SHARED = 'all';

    /** @var array<array-key, Space> */
    private array $spaces = [];

    public function __construct(
        public readonly Daemon $daemon,
        private readonly MissedWrites $missedWrites,
        private readonly string $prefix,
    ) {
    }

    public static function of(Settings $settings): self
    {
        return new self(
            new Daemon(static fn () => $settings->client()->transport),
            new MissedWrites($settings->stateDirectories, $settings->secret),
            $settings->prefix,
        );
    }

    /** @param string $space the site's number, or SHARED */
    public function get(string $space): Space
    {
        return $this->spaces[$space] ??= new Space($this->daemon, $this->missedWrites, "$this->prefix:$space");
    }

    public function shared(): Space
    {
        return $this->get(self::SHARED);
    }

    /** Whatever is known about them is read anew. */
    public function forget(): void
    {
        foreach ($this->spaces as $space) {
            $space->forget();
        }
    }
}
