--TEST--
The frames of tests/vectors are what the extension sends and understands
--FILE--
<?php
require __DIR__ . '/fake_daemon.inc';
$vectors = json_decode(file_get_contents(getenv('COATCHECK_SOURCE') . '/tests/vectors/messages.json'), true);

function bytes(mixed $value): mixed
{
    if (!is_array($value)) {
        return $value;
    }
    return isset($value['$hex']) || $value === ['$hex' => ''] ? hex2bin($value['$hex']) : array_map(bytes(...), $value);
}
/** Puts an id below 128 in the place of the id 1 of a vector. */
function with_id(string $hex, int $id): string
{
    $frame = hex2bin($hex);
    $frame[6] = chr($id);
    return $frame;
}
$count = 0;
foreach ($vectors as $vector) {
    // a daemon, thus a connection, for each: ids begin anew and fit in a byte
    $fake = new FakeDaemon(fn (array $request) => with_id($vector['response_hex'], $request[1]));
    try {
        $result = coatcheck_call($vector['request']['method'], bytes($vector['request']['params']));
    } catch (Coatcheck\Exception $e) {
        $result = [$e->reason, $e->details];
    }
    $expected = isset($vector['error'])
        ? [$vector['error'][2]['reason'] ?? '', $vector['error'][2]]
        : bytes($vector['result']);
    $sent = $fake->frames()[1];
    $count += $result === $expected && $sent === with_id($vector['request_hex'], ord($sent[6]));
    if ($result !== $expected) {
        echo $vector['name'], ': ', var_export($result, true), "\n";
    }
    if ($sent !== with_id($vector['request_hex'], ord($sent[6]))) {
        echo $vector['name'], ': sent ', bin2hex($sent), "\n";
    }
    $fake->kill();
}
echo $count === count($vectors) && $count > 30 ? "all\n" : "$count of " . count($vectors) . "\n";
?>
--EXPECT--
all
