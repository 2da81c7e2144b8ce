<?php

declare(strict_types=1);

namespace Coatcheck\Tests\Packages;

/**
 * One PHP process that serves many requests, by PHP's own web server on a loopback port.
 */
final class WebServer
{
    /** @var resource */
    private $process;
    private readonly string $address;

    /**
     * @param string $directory of the scripts
     * @param array<string, string> $environment what the scripts find in getenv()
     * @param array<string, string> $ini
     */
    public function __construct(string $directory, array $environment, array $ini = [])
    {
        $probe = stream_socket_server('tcp://127.0.0.1:0');
        $this->address = (string) stream_socket_get_name($probe, false);
        fclose($probe);
        $this->process = proc_open(
            [PHP_BINARY, ...Ini::options($ini), '-S', $this->address, '-t', $directory],
            [['file', '/dev/null', 'r'], ['file', '/dev/null', 'w'], ['file', '/dev/null', 'w']],
            $pipes,
            null,
            $environment + ['PATH' => (string) getenv('PATH')],
        );
        Daemon::eventually('the web server listens', fn () => @stream_socket_client("tcp://$this->address") !== false);
    }

    /**
     * @param array<string, string> $query
     * @param array<string, string> $headers
     */
    public function get(string $script, array $query = [], array $headers = []): string
    {
        $lines = array_map(static fn (string $name, string $value) => "$name: $value", array_keys($headers), $headers);
        $context = stream_context_create(['http' => ['ignore_errors' => true, 'timeout' => 20, 'header' => $lines]]);
        $url = "http://$this->address/$script?" . http_build_query($query);
        return (string) file_get_contents($url, false, $context);
    }

    public function __destruct()
    {
        proc_terminate($this->process, SIGKILL);
        proc_close($this->process);
    }
}
