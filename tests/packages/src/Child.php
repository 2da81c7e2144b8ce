<?php

declare(strict_types=1);

namespace Coatcheck\Tests\Packages;

/**
 * A forked process that runs a function and then dies without a word, so that it ends none of its parent's business:
 * no destructor, no shutdown function, no test result.
 */
final class Child
{
    /** @param resource $pipe */
    private function __construct(private readonly int $pid, private $pipe)
    {
    }

    /**
     * @param callable(\Closure): mixed $work is given a function that tells the parent a line; its result is told as well
     */
    public static function fork(callable $work): self
    {
        [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, STREAM_IPPROTO_IP);
        $pid = pcntl_fork();
        if ($pid !== 0) {
            fclose($theirs);
            return new self($pid, $ours);
        }
        fclose($ours);
        $tell = static fn (mixed $what) => fwrite($theirs, json_encode($what) . "\n");
        try {
            $tell($work($tell));
        } catch (\Throwable $failure) {
            $tell($failure::class . ': ' . $failure->getMessage());
        }
        posix_kill((int) getmypid(), SIGKILL);
        exit(1);
    }

    /** The next line that it tells, waiting for it. */
    public function tells(): mixed
    {
        stream_set_timeout($this->pipe, 20);
        $line = fgets($this->pipe);
        if ($line === false) {
            throw new \RuntimeException('the child process told nothing');
        }
        return json_decode($line, true, 64, JSON_THROW_ON_ERROR);
    }

    public function kill(): void
    {
        posix_kill($this->pid, SIGKILL);
        $this->await();
    }

    public function await(): void
    {
        pcntl_waitpid($this->pid, $status);
    }
}
