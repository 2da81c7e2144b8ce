<?php

declare(strict_types=1);

require __DIR__ . '/support.php';

var_dump(session_start());
$_SESSION['by'] = $_GET['by'] ?? 'holder';
say('held');
await_gate();
var_dump(session_write_close());
