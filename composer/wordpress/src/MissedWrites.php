<?php

declare(strict_types=1);

namespace Coatcheck\WordPress;

/**
 * Notes, outside the daemon, that it could not be told of a change. A daemon keeps its values over a restart, and those
 * would be older than the database; whoever finds a note that is not dealt with yet flushes first.
 *
 * A note is a small file with a random text. It is never removed, because a newer one could be removed with it: the daemon
 * remembers which notes were dealt with.
 */
final class MissedWrites
{
    private bool $hasLogged = false;

    /**
     * @param list<string> $directories a note is written to the first that takes it
     * @param string $secret so that nobody knows the files' names beforehand
     */
    public function __construct(private readonly array $directories, private readonly string $secret)
    {
    }

    /**
     * One that can be written nowhere is said in the log: values may be older than the database until a flush.
     *
     * @return bool was it written?
     */
    public function note(string $bucket): bool
    {
        foreach ($this->files($bucket) as $file) {
            if (!is_link($file) && @file_put_contents($file, bin2hex(random_bytes(8))) !== false) {
                return true;
            }
        }
        if (!$this->hasLogged) {
            $this->hasLogged = true;
            $where = implode(' or ', $this->directories);
            error_log("coatcheck: cannot note in $where what the daemon was not told: flush the cache when it is back, "
                . 'and set COATCHECK_STATE_DIR to a directory that PHP may write to');
        }
        return false;
    }

    /** @return string|null the first directory that takes notes; null when none does */
    public function directory(): ?string
    {
        foreach ($this->directories as $directory) {
            if (is_dir($directory) && is_writable($directory)) {
                return $directory;
            }
        }
        return null;
    }

    /** @return string|null the text of the latest note about this bucket; null when there is none */
    public function latest(string $bucket): ?string
    {
        $texts = [];
        foreach ($this->files($bucket) as $file) {
            if (is_file($file)) {
                $texts[] = substr((string) @file_get_contents($file), 0, 16);
            }
        }
        return $texts === [] ? null : implode('-', $texts);
    }

    /** @return list<string> */
    private function files(string $bucket): array
    {
        $name = '/.coatcheck-' . substr(hash_hmac('sha256', $bucket, $this->secret), 0, 20);
        return array_map(static fn (string $directory) => $directory . $name, $this->directories);
    }
}
