<?php

declare(strict_types=1);

require __DIR__ . '/support.php';

$handler = new Coatcheck\Session\Handler(json_decode((string) getenv('OPTIONS'), true));
session_set_save_handler(new class ($handler) implements SessionHandlerInterface {
    public function __construct(private readonly SessionHandlerInterface $inner)
    {
    }

    public function open(string $path, string $name): bool
    {
        return $this->inner->open($path, $name);
    }

    public function close(): bool
    {
        return $this->inner->close();
    }

    public function read(string $id): string|false
    {
        $this->inner->read($id);
        throw new RuntimeException("thrown after the lock was taken");
    }

    public function write(string $id, string $data): bool
    {
        return $this->inner->write($id, $data);
    }

    public function destroy(string $id): bool
    {
        return $this->inner->destroy($id);
    }

    public function gc(int $max_lifetime): int|false
    {
        return 0;
    }
});
session_start();
