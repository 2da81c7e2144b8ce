<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Console;

use Coatcheck\Client\Exception\RequestFailed;
use Coatcheck\Laravel\Clients;
use Illuminate\Console\Command;

/**
 * php artisan coatcheck:status
 */
final class StatusCommand extends Command
{
    protected $signature = 'coatcheck:status {--dsn= : The daemon, unless that of config/coatcheck.php} {--json : Print JSON}';

    protected $description = 'Show what the coatcheck daemon says about itself';

    public function handle(Clients $clients): int
    {
        try {
            $status = $clients->get($this->option('dsn'))->status();
        } catch (RequestFailed $failure) {
            $this->error($failure->getMessage());
            return 1;
        }
        if ($this->option('json')) {
            $this->line((string) json_encode($status));
            return 0;
        }
        $this->table(['Name', 'Value'], array_map(
            static fn ($name, $value) => [$name, is_scalar($value) ? $value : json_encode($value)],
            array_keys($status),
            $status,
        ));
        return 0;
    }
}
