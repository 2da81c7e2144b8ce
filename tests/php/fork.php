<?php

// Forks in the middle of a session, on the command line. The child ends first, then the parent goes on.

declare(strict_types=1);

session_id($argv[1]);
session_start();
$_SESSION['by'] = 'parent';
$locked = fn (): bool => coatcheck_call('server.status')['locks'] > 0;
$child = pcntl_fork();
if ($child === 0) {
    $_SESSION['by'] = 'child';
    coatcheck_kv_set('child', 'was here');
    exit(0);
}
pcntl_waitpid($child, $status);
$still = $locked();
coatcheck_kv_set('parent', 'goes on');
$values = [coatcheck_kv_get('child'), coatcheck_kv_get('parent')];
$closed = session_write_close();
answer(['locked_after_child' => $still, 'values' => $values, 'closed' => $closed, 'locked' => $locked()]);
session_start(['read_and_close' => true]);
answer(['by' => $_SESSION['by']]);
