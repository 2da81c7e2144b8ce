<?php

// Puts a value of the size and kind that the query names into the session.

declare(strict_types=1);

ini_set('memory_limit', '512M');
session_start();
$size = (int) $_GET['size'];
$_SESSION['value'] = match ($_GET['kind']) {
    'random' => $size > 0 ? random_bytes($size) : '',
    'nul' => str_repeat("\0", $size),
    'odd' => "a\0b|c;d\r\n\xff\xfe" . str_repeat("\x80", $size),
};
$hash = sha1($_SESSION['value']);
$closed = session_write_close();
answer(['hash' => $hash, 'closed' => $closed, 'pid' => getmypid()]);
