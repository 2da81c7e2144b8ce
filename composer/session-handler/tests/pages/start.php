<?php

declare(strict_types=1);

require __DIR__ . '/support.php';

var_dump(session_start());
echo json_encode($_SESSION ?? null), "\n";
if (isset($_GET['set'])) {
    $_SESSION['set'] = $_GET['set'];
}
var_dump(session_write_close());
