<?php

declare(strict_types=1);

namespace Coatcheck\Tests\Packages;

/**
 * One request to a script, in a php-cgi process of its own, so that several run at once and each may be killed.
 */
final class Page
{
    private const PATIENCE_SECONDS = 30;

    /** @var resource|null */
    private $process;
    private string $output = '';

    /** @param resource $pipe */
    private function __construct($process, private $pipe)
    {
        $this->process = $process;
        stream_set_timeout($pipe, self::PATIENCE_SECONDS);
    }

    /**
     * Begins the request.
     *
     * @param array<string, string> $query
     * @param array<string, string> $environment what the script finds in getenv()
     * @param array<string, string> $ini
     */
    public static function begin(
        string $script,
        array $query = [],
        string $cookie = '',
        array $environment = [],
        array $ini = [],
    ): self {
        $process = proc_open(
            ['php-cgi', ...Ini::options($ini)],
            [['file', '/dev/null', 'r'], ['pipe', 'w'], ['file', '/dev/null', 'w']],
            $pipes,
            null,
            $environment + [
                'PATH' => (string) getenv('PATH'),
                'REDIRECT_STATUS' => '200',
                'REQUEST_METHOD' => 'GET',
                'SCRIPT_FILENAME' => $script,
                'QUERY_STRING' => http_build_query($query),
                'HTTP_COOKIE' => $cookie,
            ],
        );
        return new self($process, $pipes[1]);
    }

    /** Waits until the script has printed this. */
    public function awaitOutput(string $text): void
    {
        while (!str_contains($this->output, $text)) {
            $this->readSome() || throw new \RuntimeException("waited in vain for \"$text\" in:\n$this->output");
        }
    }

    /** Waits for the end. @return string headers and body */
    public function end(): string
    {
        while ($this->readSome()) {
            continue;
        }
        if ($this->process !== null) {
            proc_close($this->process);
            $this->process = null;
        }
        return $this->output;
    }

    /** The body, once the request has ended. */
    public function body(): string
    {
        return explode("\r\n\r\n", $this->end(), 2)[1] ?? '';
    }

    public function kill(): void
    {
        posix_kill(proc_get_status($this->process)['pid'], SIGKILL);
        $this->end();
    }

    public function __destruct()
    {
        if ($this->process !== null) {
            proc_terminate($this->process, SIGKILL);
            proc_close($this->process);
        }
    }

    private function readSome(): bool
    {
        $bytes = fread($this->pipe, 65536);
        $this->output .= (string) $bytes;
        return (string) $bytes !== '';
    }
}
