<?php

declare(strict_types=1);

namespace Coatcheck\Client\Tests\Support;

use Coatcheck\Tests\Packages\Daemon;

/**
 * One PHP process that serves many requests, by PHP's own web server on a loopback port.
 */
final class WebServer
{
    /** @var resource */
    private $process;
    private readonly string $address;

    public function __construct(string $socket)
    {
        $probe = stream_socket_server('tcp://127.0.0.1:0');
        $this->address = (string) stream_socket_get_name($probe, false);
        fclose($probe);
        $this->process = proc_open(
            [PHP_BINARY, '-d', 'display_errors=1', '-S', $this->address, '-t', dirname(__DIR__) . '/www'],
            [['file', '/dev/null', 'r'], ['file', '/dev/null', 'w'], ['file', '/dev/null', 'w']],
            $pipes,
            null,
            [
                'COATCHECK_TEST_SOCKET' => $socket,
                'COATCHECK_TEST_BOOTSTRAP' => dirname(__DIR__) . '/bootstrap.php',
                'PATH' => (string) getenv('PATH'),
            ],
        );
        Daemon::eventually('the web server listens', fn () => @stream_socket_client("tcp://$this->address") !== false);
    }

    /** @param array<string, string> $query */
    public function get(array $query): string
    {
        $context = stream_context_create(['http' => ['ignore_errors' => true, 'timeout' => 20]]);
        return (string) file_get_contents(
            "http://$this->address/request.php?" . http_build_query($query),
            false,
            $context,
        );
    }

    public function __destruct()
    {
        proc_terminate($this->process, SIGKILL);
        proc_close($this->process);
    }
}
