--TEST--
Strict mode: when the daemon cannot be asked the id is kept, so that an outage logs nobody out
--FILE--
<?php
require __DIR__ . '/support.inc';
use_coatcheck_sessions();
ini_set('coatcheck.socket', scratch_folder() . '/none.sock');

class Wrapped extends SessionHandler implements SessionUpdateTimestampHandlerInterface
{
    public function validateId($id): bool
    {
        return true;
    }

    public function updateTimestamp($id, $data): bool
    {
        return parent::write($id, $data);
    }

    public function read($id): string|false
    {
        echo "read $id\n";
        return @parent::read($id);
    }
}
ini_set('session.use_strict_mode', '1');
session_set_save_handler(new Wrapped(), false);
var_dump(@start('precious'));

// natively, the id that read is asked for is in the warning
session_set_save_handler(new SessionHandler(), false);
ini_set('session.save_handler', 'coatcheck');
var_dump(start('treasure'));
?>
--EXPECTF--
read precious
bool(false)

Warning: session_start(): coatcheck at %s: session treasu… is not read: there is no such socket; %s in %s on line %d

Warning: session_start(): Failed to read session data: coatcheck (path: ) in %s on line %d
bool(false)
