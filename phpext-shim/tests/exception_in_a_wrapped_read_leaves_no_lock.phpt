--TEST--
A SessionHandler whose read throws: PHP calls no close, the lock goes with the request all the same
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(FakeDaemon::session(...));
$worker = new Worker('
    class Throwing extends SessionHandler
    {
        public function read($id): string|false
        {
            parent::read($id);
            throw new Exception("in the middle");
        }
    }
    session_set_save_handler(new Throwing(), false);
    try {
        start("throwing");
    } catch (Exception $e) {
        say($e->getMessage());
    }
');
echo $worker->rest(), implode(' ', $fake->methods()), "\n";
?>
--EXPECT--
in the middle
connect hello session.open server.end_request close
