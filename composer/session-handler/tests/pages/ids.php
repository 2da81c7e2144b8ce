<?php

declare(strict_types=1);

require __DIR__ . '/support.php';

$handler = new Coatcheck\Session\Handler(json_decode((string) getenv('OPTIONS'), true));
$handler->open("", 'PHPSESSID');
foreach (["", "../etc/passwd", "a\0b", "a:b", "a b", "ä", str_repeat("a", 257)] as $id) {
    var_dump(@$handler->read($id), @$handler->write($id, ""), @$handler->destroy($id), $handler->validateId($id));
}
var_dump($handler->read(str_repeat("a", 256)), $handler->read("A-z,9"));
$handler->read("a/b");
