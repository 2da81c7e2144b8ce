<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Console;

use Coatcheck\Client\Exception\RequestFailed;
use Coatcheck\Laravel\Clients;
use Illuminate\Console\Command;

/**
 * php artisan coatcheck:locks
 */
final class LocksCommand extends Command
{
    protected $signature = 'coatcheck:locks {--dsn= : The daemon, unless that of config/coatcheck.php}
        {--limit=1000 : As many as are shown at most} {--json : Print JSON}';

    protected $description = 'List the locks that are held now, those of sessions included';

    public function handle(Clients $clients): int
    {
        try {
            $locks = $clients->get($this->option('dsn'))->heldLocks((int) $this->option('limit'));
        } catch (RequestFailed $failure) {
            $this->error($failure->getMessage());
            return 1;
        }
        match (true) {
            (bool) $this->option('json') => $this->line((string) json_encode($locks)),
            $locks === [] => $this->info('No lock is held.'),
            default => $this->table(
                ['Kind', 'Bucket', 'Name', 'Waiters', 'Holder', 'Held', 'Left'],
                array_map($this->row(...), $locks),
            ),
        };
        return 0;
    }

    /**
     * @param array<string, mixed> $lock
     * @return list<string|int>
     */
    private function row(array $lock): array
    {
        $holders = $lock['holders'] ?? [];
        return [
            $lock['kind'] ?? '',
            $lock['bucket'] ?? '',
            $lock['name'] ?? '',
            $lock['waiters'] ?? 0,
            implode("\n", array_map(static fn (array $h) => trim("pid {$h['pid']} " . ($h['script'] ?? '')), $holders)),
            implode("\n", array_map(static fn (array $h) => self::seconds($h['held_ms'] ?? null), $holders)),
            implode("\n", array_map(static fn (array $h) => self::seconds($h['lease_left_ms'] ?? null), $holders)),
        ];
    }

    private static function seconds(?int $ms): string
    {
        return $ms === null ? 'no expiry' : sprintf('%.1f s', $ms / 1000);
    }
}
