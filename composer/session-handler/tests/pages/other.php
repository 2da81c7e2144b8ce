<?php

declare(strict_types=1);

require __DIR__ . '/support.php';

$handler = new Coatcheck\Session\Handler(json_decode((string) getenv('OPTIONS'), true));
$handler->open("", 'PHPSESSID');
var_dump($handler->read('current'));
var_dump($handler->write('another', 'written beside'));
var_dump($handler->write('current', 'written'), $handler->write('current', 'again'), $handler->close());
var_dump($handler->open("", 'PHPSESSID'), $handler->read('another'), $handler->gc(1), $handler->validateId('current'));
var_dump($handler->updateTimestamp('another', 'touched'), $handler->destroy('never-there'));
var_dump($handler->close(), $handler->close());
