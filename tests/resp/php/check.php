<?php

// Compares values; a difference ends the script with an error.

declare(strict_types=1);

function same(string $what, mixed $want, mixed $got): void
{
    if ($want !== $got) {
        fwrite(STDERR, sprintf("%s: got %s, want %s\n", $what, var_export($got, true), var_export($want, true)));
        exit(1);
    }
}
