<?php

// A handler of the application's own that reads, and then fails.

declare(strict_types=1);

session_set_save_handler(new class extends SessionHandler {
    public function read(string $id): string|false
    {
        parent::read($id);
        throw new DomainException('this session is not to my liking');
    }
});
try {
    session_start();
    answer(['thrown' => null]);
} catch (DomainException $e) {
    answer(['thrown' => $e->getMessage()]);
}
