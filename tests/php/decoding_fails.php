<?php

// Leaves bytes in the session that no serialize handler can read, and then starts it.

declare(strict_types=1);

session_set_save_handler(new class extends SessionHandler {
    public function write(string $id, string $data): bool
    {
        return parent::write($id, 'these bytes are no session');
    }
});
session_start();
count_visit();
session_write_close();
$started = session_start();
answer(['started' => $started]);
