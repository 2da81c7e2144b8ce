--TEST--
A worker that lives on: what its request forgot to release ends with the request
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
$server = new WebServer([
    'forget.php' => 'coatcheck_call("lock.acquire", ["name" => "forgotten", "token" => "a", "bound" => true]); echo coatcheck_call("server.status")["locks"];',
    'throw.php' => '
        class Throwing extends SessionHandler
        {
            public function read($id): string|false
            {
                parent::read($id);
                throw new Exception("in the middle");
            }
        }
        session_set_save_handler(new Throwing(), false);
        session_id("throwing");
        try {
            session_start();
        } catch (Exception $e) {
            echo $e->getMessage();
        }',
    'after.php' => 'session_id("throwing"); session_start(); echo "started"; session_abort();',
]);
echo $server->request('/forget.php'), "\n";
wait_until(fn () => $daemon->locks() === 0, 'the forgotten lock to end');
echo $server->request('/throw.php'), "\n";
wait_until(fn () => $daemon->locks() === 0, 'the lock of the session to end');
$waited = milliseconds(function () use ($server) {
    echo $server->request('/after.php'), "\n";
});
echo $waited < 5000 ? "at once\n" : "after $waited ms\n";
var_dump($daemon->status()['connections'] - 1);
?>
--EXPECT--
1
in the middle
started
at once
int(1)
