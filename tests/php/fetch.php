<?php

// Tells the hash of the value that store.php left.

declare(strict_types=1);

ini_set('memory_limit', '512M');
session_start(['read_and_close' => true]);
answer(['hash' => isset($_SESSION['value']) ? sha1($_SESSION['value']) : null, 'keys' => array_keys($_SESSION)]);
