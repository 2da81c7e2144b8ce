<?php

// Gives the session a new id, as after a log-in; delete=1 in the query removes the old session.

declare(strict_types=1);

session_start();
count_visit();
$old = session_id();
$done = session_regenerate_id((bool) ($_GET['delete'] ?? 0));
count_visit();
answer(['done' => $done, 'old' => $old, 'new' => session_id()]);
