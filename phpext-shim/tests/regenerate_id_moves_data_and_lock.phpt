--TEST--
session_regenerate_id(true|false), strict mode, locking and SessionHandler: the data moves, no lock stays
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
use_coatcheck_sessions();

function round_trip(Daemon $daemon, bool $delete, bool $strict, bool $locking): string
{
    ini_set('session.use_strict_mode', $strict);
    ini_set('coatcheck.session_locking', $locking);
    session_id('');
    session_start();
    $_SESSION['n'] = 1;
    $old = session_id();
    session_write_close();

    start($old);
    $_SESSION['n'] = 2;
    session_regenerate_id($delete);
    $new = session_id();
    $locks = $daemon->locks();
    $_SESSION['n'] = 3;
    session_write_close();
    return sprintf(
        '%s, %d lock while open, old: %s new: %s locks: %d',
        $old !== $new ? 'new id' : 'same id',
        $locks,
        stored($daemon->socket, $old) ?? 'gone',
        stored($daemon->socket, $new),
        $daemon->locks()
    );
}
foreach (['native', 'SessionHandler'] as $handler) {
    if ($handler === 'SessionHandler') {
        session_set_save_handler(new SessionHandler(), false);
    }
    foreach ([false, true] as $delete) {
        foreach ([false, true] as $strict) {
            foreach ([true, false] as $locking) {
                echo "$handler, ", $delete ? 'delete' : 'keep', $strict ? ', strict' : '', $locking ? '' : ', unlocked', ': ';
                echo round_trip($daemon, $delete, $strict, $locking), "\n";
            }
        }
    }
}
?>
--EXPECT--
native, keep: new id, 1 lock while open, old: n|i:2; new: n|i:3; locks: 0
native, keep, unlocked: new id, 0 lock while open, old: n|i:2; new: n|i:3; locks: 0
native, keep, strict: new id, 1 lock while open, old: n|i:2; new: n|i:3; locks: 0
native, keep, strict, unlocked: new id, 0 lock while open, old: n|i:2; new: n|i:3; locks: 0
native, delete: new id, 1 lock while open, old: gone new: n|i:3; locks: 0
native, delete, unlocked: new id, 0 lock while open, old: gone new: n|i:3; locks: 0
native, delete, strict: new id, 1 lock while open, old: gone new: n|i:3; locks: 0
native, delete, strict, unlocked: new id, 0 lock while open, old: gone new: n|i:3; locks: 0
SessionHandler, keep: new id, 1 lock while open, old: n|i:2; new: n|i:3; locks: 0
SessionHandler, keep, unlocked: new id, 0 lock while open, old: n|i:2; new: n|i:3; locks: 0
SessionHandler, keep, strict: new id, 1 lock while open, old: n|i:2; new: n|i:3; locks: 0
SessionHandler, keep, strict, unlocked: new id, 0 lock while open, old: n|i:2; new: n|i:3; locks: 0
SessionHandler, delete: new id, 1 lock while open, old: gone new: n|i:3; locks: 0
SessionHandler, delete, unlocked: new id, 0 lock while open, old: gone new: n|i:3; locks: 0
SessionHandler, delete, strict: new id, 1 lock while open, old: gone new: n|i:3; locks: 0
SessionHandler, delete, strict, unlocked: new id, 0 lock while open, old: gone new: n|i:3; locks: 0
