<?php

// Counts a visit, and tells when it asked for the session, had it, asked for its end and was answered, by the clock that all processes of this
// machine share. With `size`, the session also holds so many bytes, other ones each time, and says whether those before were whole.

declare(strict_types=1);

$called = hrtime(true);
$started = session_start();
$granted = hrtime(true);
$n = $started ? count_visit() : null;
$size = (int) ($_GET['size'] ?? 0);
$whole = true;
if ($started && $size > 0) {
    $whole = !isset($_SESSION['sum']) || hash('xxh3', $_SESSION['bytes']) === $_SESSION['sum'];
    $_SESSION['bytes'] = random_bytes($size);
    $_SESSION['sum'] = hash('xxh3', $_SESSION['bytes']);
}
stay();
$storing = hrtime(true);
$closed = $started && session_write_close();
answer([
    'n' => $n, 'started' => $started, 'closed' => $closed, 'whole' => $whole,
    'called_ns' => $called, 'granted_ns' => $granted, 'storing_ns' => $storing, 'over_ns' => hrtime(true),
]);
