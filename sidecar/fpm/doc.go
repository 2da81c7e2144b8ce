// Package fpm stands between HTTP and php-fpm: [Front] serves a document root of PHP scripts and
// static files through a php-fpm pool, and [Pool] asks that pool for its ping and its status.
//
// # Model
//
// A request is first turned into a file below the document root, then its body is taken in whole,
// and only then does it get a connection to php-fpm, so a slow visitor never occupies a worker.
// The answer streams through with bounded buffers. Pages go through the FastCGI client in this
// package; ping and status go through gofast (docs/decisions/0002-fastcgi-client.md says why).
//
// # Guarantees
//
//   - A script runs only if its own name ends in ".php" and it is a regular file below the document
//     root with no symlink on the way that leaves it. /app.php/rest runs app.php with PATH_INFO
//     "/rest"; /photo.jpg/x.php runs nothing.
//   - A file whose name shows that it holds source (page.php.bak, lib.inc, .env, .git/config) is
//     never sent as text. The one hidden directory served is /.well-known/.
//   - A request is sent to php-fpm at most once, whatever becomes of it.
//   - An answer that breaks off is never passed on as a whole one: before its first byte the visitor
//     gets a 5xx with the reason, after it the HTTP connection is cut.
//   - No error sent to a visitor contains a path or an address of this host. Logs carry no query, body, or
//     whole cookie.
//
// # Does not guarantee
//
//   - php-fpm opens the script itself, after it was checked here. Who may write in the document root
//     between the two decides what runs.
//   - A visitor who reads slowly occupies a worker until the rest of the answer fits the buffers on the way.
//   - The number of visitors, their idle time and the size of their request head are limits of the
//     [net/http.Server] around the Front.
//
// # Concurrency
//
// Front and Pool may be used by any number of goroutines.
package fpm
