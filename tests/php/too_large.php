<?php

// Sets a value of the size that the query names.

declare(strict_types=1);

try {
    answer(['result' => coatcheck_kv_set('large', str_repeat('x', (int) $_GET['size']))]);
} catch (Coatcheck\Exception $e) {
    answer(['exception' => $e::class, 'message' => $e->getMessage()]);
}
