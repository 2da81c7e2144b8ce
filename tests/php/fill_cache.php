<?php

// Puts more into the cache than the daemon has room for, in bytes that do not compress, and tells how much is kept.

declare(strict_types=1);

$written = (int) $_GET['values'];
for ($i = 0; $i < $written; $i++) {
    coatcheck_kv_set("value-$i", random_bytes(4096));
}
$kept = 0;
for ($i = 0; $i < $written; $i++) {
    $kept += (int) coatcheck_kv_exists("value-$i");
}
answer(['written' => $written, 'kept' => $kept]);
