<?php

declare(strict_types=1);

namespace Coatcheck\Laravel\Cache;

use Illuminate\Contracts\Cache\CanFlushLocks;

// Laravel 13 has the interface; before it, nothing asks for it, and the methods are there all the same.
if (interface_exists(CanFlushLocks::class)) {
    class_alias(CanFlushLocks::class, FlushesLocks::class);
} else {
    interface FlushesLocks
    {
        /** Ends every lock of the store, whoever holds it. */
        public function flushLocks(): bool;

        /** Can locks be flushed while values stay? */
        public function hasSeparateLockStore(): bool;
    }
}
