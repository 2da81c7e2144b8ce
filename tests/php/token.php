<?php

// Shows what the extension tells of the session's lock.

declare(strict_types=1);

session_start();
$info = coatcheck_session_info();
session_write_close();
answer(['token' => $info['token_prefix'], 'fence' => $info['fence'], 'locked' => $info['locked'], 'pid' => getmypid()]);
