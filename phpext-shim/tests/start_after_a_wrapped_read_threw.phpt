--TEST--
After a SessionHandler whose read threw, the same request can start the session again at once
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();

class ThrowsOnce extends SessionHandler
{
    private bool $thrown = false;

    public function read($id): string|false
    {
        $data = parent::read($id);
        if (!$this->thrown) {
            $this->thrown = true;
            throw new Exception('in the middle');
        }
        return $data;
    }
}
session_set_save_handler(new ThrowsOnce(), false);
try {
    start('again');
} catch (Exception $e) {
    echo $e->getMessage(), "\n";
}
$waited = milliseconds(fn () => var_dump(start('again')));
echo $waited < 2000 ? "at once\n" : "after $waited ms\n";
session_write_close();
var_dump($daemon->locks());
?>
--EXPECT--
in the middle
bool(true)
at once
int(0)
