<?php

declare(strict_types=1);

require __DIR__ . '/support.php';

session_start();
$_SESSION['n'] = 1;
$old = session_id();
var_dump(session_regenerate_id($_GET['delete'] === '1'));
$_SESSION['n'] = 2;
session_write_close();
say("old " . $old . "\nnew " . session_id());
