--TEST--
Upload progress starts and writes the session before the script does, and leaves no lock
--FILE--
<?php
require __DIR__ . '/support.inc';
$daemon = new Daemon();
$server = new WebServer(
    ['upload.php' => '
        session_start();
        echo json_encode([$_FILES["file"]["size"], array_map(fn ($p) => [$p["bytes_processed"] > 0, $p["done"]], $_SESSION)]);'],
    [
        'session.use_cookies' => '1',
        'session.upload_progress.enabled' => '1',
        'session.upload_progress.cleanup' => '0',
        'session.upload_progress.freq' => '1%',
        'session.upload_progress.min_freq' => '0',
    ]
);
$part = fn (string $head, string $data) => "--part\r\nContent-Disposition: form-data; $head\r\n\r\n$data\r\n";
$body = $part('name="PHP_SESSION_UPLOAD_PROGRESS"', 'mine') . $part('name="file"; filename="f.bin"', str_repeat('x', 100000)) . "--part--\r\n";
echo $server->request('/upload.php', "Cookie: PHPSESSID=uploads\r\nContent-Type: multipart/form-data; boundary=part\r\n", $body), "\n";
var_dump($daemon->locks(), str_starts_with(stored($daemon->socket, 'uploads'), 'upload_progress_mine|'));
?>
--EXPECT--
[100000,{"upload_progress_mine":[true,true]}]
int(0)
bool(true)
