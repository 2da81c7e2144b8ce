<?php

declare(strict_types=1);

set_error_handler(static function (int $level, string $message): bool {
    echo $level === E_USER_DEPRECATED && error_reporting() === 4437 ? 'silently: ' : 'loudly: ', $message, "\n";
    return true;
});

require __DIR__ . '/support.php';

var_dump(session_start());
