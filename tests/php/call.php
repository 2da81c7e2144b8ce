<?php

// One coatcheck_call(), whose method and parameters come as JSON; stays in the script after it.

declare(strict_types=1);

$params = json_decode($_GET['params'] ?? '{}', true, 8, JSON_THROW_ON_ERROR);
try {
    $result = coatcheck_call($_GET['method'], $params);
    stay();
    answer(['result' => $result, 'pid' => getmypid()]);
} catch (Coatcheck\Exception $e) {
    answer(['exception' => $e::class, 'reason' => $e->reason, 'message' => $e->getMessage()]);
}
