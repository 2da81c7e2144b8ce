<?php

// Asks for a collection of old sessions in the middle of one.

declare(strict_types=1);

session_start();
$collected = session_gc();
$n = count_visit();
answer(['collected' => $collected, 'n' => $n]);
