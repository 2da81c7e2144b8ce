--TEST--
The answer to a request that waits may overtake that to hello, and those of a pipeline each other
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$socket = scratch_folder() . '/odd.sock';
$server = stream_socket_server("unix://$socket");
$child = in_child(function () use ($server) {
    while (true) {
        $stream = stream_socket_accept($server, -1);
        foreach ([2, 1, 2] as $together) {
            $answers = [];
            while (count($answers) < $together && ($message = Wire::read($stream)) !== null) {
                $answers[] = FakeDaemon::result($message, $message[2] === 'hello' ? FakeDaemon::HELLO : $message[3]['key'] ?? $message[2]);
            }
            foreach (array_reverse($answers) as $answer) {
                fwrite($stream, $answer);
                usleep(2000); // so that they do not arrive together
            }
        }
    }
});
at_end(fn () => posix_kill($child, SIGKILL));
ini_set('coatcheck.socket', $socket);
var_dump(coatcheck_call('server.status'), coatcheck_kv_get('next'));
var_dump(coatcheck_pipeline([['kv.get', ['key' => 'a']], ['kv.get', ['key' => 'b']]]));
?>
--EXPECT--
string(13) "server.status"
string(4) "next"
array(2) {
  [0]=>
  string(1) "a"
  [1]=>
  string(1) "b"
}
