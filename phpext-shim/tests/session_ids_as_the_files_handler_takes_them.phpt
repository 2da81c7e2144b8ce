--TEST--
Ids that PHP's files handler refuses are refused with a warning, and nothing is sent
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$fake = new FakeDaemon(FakeDaemon::session(...));
use_coatcheck_sessions();

foreach (['a/b', '.', '..', 'a:b', '%41', "n\xc3\xa4h", str_repeat('x', 257), str_repeat('x', 5000)] as $id) {
    $warned = [];
    set_error_handler(function ($level, $message) use (&$warned) {
        $warned[] = $message;
        return true;
    });
    $started = start($id);
    restore_error_handler();
    echo strlen($id) > 20 ? strlen($id) . ' characters' : $id, ': ', $started ? 'started' : 'refused';
    echo str_contains($warned[0] ?? '', 'the session id is empty, longer than 256') ? ", warned\n" : "\n";
}
// through SessionHandler, where PHP itself looks at nothing
session_set_save_handler(new SessionHandler(), false);
session_id('fine');
session_start();
$handler = new SessionHandler();
foreach (['', "nul\0byte"] as $id) {
    var_dump(@$handler->write($id, 'data'), @$handler->destroy($id), @$handler->read($id));
}
session_abort();
var_dump(start(str_repeat('Az09,-', 42)), session_abort());
echo implode(' ', array_diff($fake->methods(), ['connect', 'hello', 'close'])), "\n";
?>
--EXPECT--
a/b: refused, warned
.: refused, warned
..: refused, warned
a:b: refused, warned
%41: refused, warned
näh: refused, warned
257 characters: refused, warned
5000 characters: refused, warned
bool(false)
bool(false)
bool(false)
bool(false)
bool(false)
bool(false)
bool(true)
bool(true)
session.open session.release session.open session.release
