--TEST--
A bad setting is refused with a warning that says what is allowed, and the old value stays
--FILE--
<?php
foreach ([
    'lock_wait' => ['-1', 'soon', '1e9', '0', '0.25'],
    'lock_lease' => ['0', '', '0.0001', '0.5'],
    'timeout_ms' => ['0', '0.5', 'fast', '250'],
    'connect_timeout_ms' => ['-3', '5'],
    'lock_failure' => ['panic', 'readonly'],
    'socket' => ['relative.sock', '/' . str_repeat('x', 107), 'unix:///run/other.sock'],
    'prefix' => [str_repeat('p', 256), 'shop'],
    'session_locking' => ['0', 'enabled', 'On', 'maybe'],
] as $name => $values) {
    foreach ($values as $value) {
        ini_set("coatcheck.$name", $value);
    }
    echo "$name = ", ini_get("coatcheck.$name"), "\n";
}
?>
--EXPECTF--

Warning: ini_set(): coatcheck.lock_wait = "-1" is not valid: seconds, 0 to 86400, such as 0.5 in %s on line %d

Warning: ini_set(): coatcheck.lock_wait = "soon" is not valid: seconds, 0 to 86400, such as 0.5 in %s on line %d

Warning: ini_set(): coatcheck.lock_wait = "1e9" is not valid: seconds, 0 to 86400, such as 0.5 in %s on line %d
lock_wait = 0.25

Warning: ini_set(): coatcheck.lock_lease = "0" is not valid: seconds, 0.001 to 86400, such as 0.5 in %s on line %d

Warning: ini_set(): coatcheck.lock_lease = "" is not valid: seconds, 0.001 to 86400, such as 0.5 in %s on line %d

Warning: ini_set(): coatcheck.lock_lease = "0.0001" is not valid: seconds, 0.001 to 86400, such as 0.5 in %s on line %d
lock_lease = 0.5

Warning: ini_set(): coatcheck.timeout_ms = "0" is not valid: whole milliseconds, 1 to 86400000 in %s on line %d

Warning: ini_set(): coatcheck.timeout_ms = "0.5" is not valid: whole milliseconds, 1 to 86400000 in %s on line %d

Warning: ini_set(): coatcheck.timeout_ms = "fast" is not valid: whole milliseconds, 1 to 86400000 in %s on line %d
timeout_ms = 250

Warning: ini_set(): coatcheck.connect_timeout_ms = "-3" is not valid: whole milliseconds, 1 to 86400000 in %s on line %d
connect_timeout_ms = 5

Warning: ini_set(): coatcheck.lock_failure = "panic" is not valid: unlocked, fail or readonly in %s on line %d
lock_failure = readonly

Warning: ini_set(): coatcheck.socket = "relative.sock" is not valid: the absolute path of a Unix socket, at most 107 bytes in %s on line %d

Warning: ini_set(): coatcheck.socket = "/xxx%sx" is not valid: the absolute path of a Unix socket, at most 107 bytes in %s on line %d
socket = unix:///run/other.sock

Warning: ini_set(): coatcheck.prefix = "ppp%sp" is not valid: at most 255 bytes in %s on line %d
prefix = shop

Warning: ini_set(): coatcheck.session_locking = "enabled" is not valid: On or Off in %s on line %d

Warning: ini_set(): coatcheck.session_locking = "maybe" is not valid: On or Off in %s on line %d
session_locking = On
