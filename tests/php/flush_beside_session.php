<?php

// Flushes the cache in the middle of a session.

declare(strict_types=1);

session_start();
coatcheck_kv_set('cached', 'value');
$flushed = coatcheck_kv_flush_all();
answer(['flushed' => $flushed, 'cached' => coatcheck_kv_get('cached'), 'n' => count_visit()]);
stay();
