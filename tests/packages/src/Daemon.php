<?php

declare(strict_types=1);

namespace Coatcheck\Tests\Packages;

/**
 * A daemon of a test's own, which it may kill, pause and start again. It keeps nothing unless given a data directory.
 */
final class Daemon
{
    private const PATIENCE_SECONDS = 10.0;

    public readonly string $socket;

    /** @var resource|null */
    private $process = null;

    /**
     * @param array<string, string> $settings names and values of serve's COATCHECK_* variables
     */
    private function __construct(private readonly string $directory, private readonly array $settings)
    {
        $this->socket = "$directory/coatcheck.sock";
    }

    /** @param array<string, string> $settings such as ['COATCHECK_LIMITS_MAX_FRAME' => '65536'] */
    public static function start(array $settings = []): self
    {
        $directory = self::required('COATCHECK_TEST_DIR') . '/daemon-' . bin2hex(random_bytes(4));
        mkdir($directory);
        $daemon = new self($directory, $settings);
        $daemon->startAgain();
        return $daemon;
    }

    /** The socket of the daemon that the whole suite shares. */
    public static function sharedSocket(): string
    {
        return self::required('COATCHECK_TEST_SOCKET');
    }

    public function startAgain(): void
    {
        $this->process = proc_open(
            [
                self::required('COATCHECK_TEST_DAEMON'), 'serve', '--socket', $this->socket, '--data', '',
                '--admin', "unix:$this->directory/admin.sock", '--log-level', 'warn',
            ],
            [['file', '/dev/null', 'r'], ['file', "$this->directory/log", 'a'], ['file', "$this->directory/log", 'a']],
            $pipes,
            null,
            $this->settings + ['PATH' => (string) getenv('PATH')],
        );
        self::eventually('the daemon listens', function (): bool {
            $connection = @stream_socket_client("unix://$this->socket", $number, $problem, 1.0);
            return $connection !== false && fclose($connection);
        });
    }

    /** What it counts, as on its page /metrics. */
    public function metrics(): string
    {
        $connection = stream_socket_client("unix://$this->directory/admin.sock");
        fwrite($connection, "GET /metrics HTTP/1.0\r\n\r\n");
        return (string) stream_get_contents($connection);
    }

    public function pid(): int
    {
        return proc_get_status($this->process)['pid'];
    }

    /** As a crash: SIGKILL, and the socket's file stays. */
    public function kill(): void
    {
        $this->end(SIGKILL);
    }

    /** As an operator does it: SIGTERM. */
    public function stop(): void
    {
        $this->end(SIGTERM);
    }

    /** It hangs from here on. */
    public function pause(): void
    {
        posix_kill($this->pid(), SIGSTOP);
        self::eventually('the daemon has stopped', function (): bool {
            foreach (glob("/proc/{$this->pid()}/task/*/stat") as $stat) {
                if (!str_contains((string) @file_get_contents($stat), ') T ')) {
                    return false;
                }
            }
            return true;
        });
    }

    public function resume(): void
    {
        posix_kill($this->pid(), SIGCONT);
    }

    public function __destruct()
    {
        if ($this->process !== null) {
            $this->end(SIGKILL);
        }
    }

    /** Waits until a condition holds; fails after a while and says for what it waited. */
    public static function eventually(string $what, callable $condition, float $seconds = self::PATIENCE_SECONDS): void
    {
        $until = microtime(true) + $seconds;
        while (!$condition()) {
            if (microtime(true) > $until) {
                throw new \RuntimeException("waited in vain for $seconds s until $what");
            }
            usleep(2_000);
        }
    }

    private function end(int $signal): void
    {
        $status = proc_get_status($this->process);
        if ($status['running']) {
            posix_kill($status['pid'], SIGCONT);
            posix_kill($status['pid'], $signal);
        }
        proc_close($this->process);
        $this->process = null;
    }

    private static function required(string $variable): string
    {
        $value = getenv($variable);
        return is_string($value) && $value !== ''
            ? $value
            : throw new \RuntimeException("$variable is not set; run the suite by tests/packages/run.sh");
    }
}
