package fpm

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// echoScript answers with the script and the path info that php-fpm was asked to run.
func echoScript(c net.Conn, r fakeRequest) {
	name := strings.TrimPrefix(r.params["SCRIPT_FILENAME"], r.params["DOCUMENT_ROOT"])
	sends(page200("ran "+name+" "+r.params["PATH_INFO"]))(c, r)
}

func newSiteFixture(t *testing.T, fallback string) *fixture {
	f := newFixture(t, startFake(t, echoScript), func(c *Config) { c.Fallback = fallback })
	outside := t.TempDir()
	for name, content := range map[string]string{
		"app.php": "", "sub/index.php": "", "plain/index.html": "plain index", "empty/x.txt": "", "photo.jpg": "jpeg",
		"dir.php/inner.php": "", ".env": "SECRET", ".git/config": "SECRET", ".hidden.php": "", "sub/.htaccess": "SECRET",
		".well-known/acme": "token", "app.php.bak": "SECRET", "app.php~": "SECRET", "lib.inc": "SECRET", "APP.PHP": "SECRET",
		"note.txt": "note", "a b.txt": "blank", "data.unknownext": "<script>",
	} {
		f.file(name, content)
	}
	for _, name := range []string{"secret.txt", "secret.php"} {
		if err := os.WriteFile(filepath.Join(outside, name), []byte("SECRET"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"out.txt": filepath.Join(outside, "secret.txt"), "out.php": filepath.Join(outside, "secret.php"),
		"out": outside, "in.txt": "note.txt", "in.php": "app.php",
	} {
		if err := os.Symlink(to, filepath.Join(f.docroot, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(f.docroot, "pipe.txt"), 0o644); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestPathsLeadToWhatMayBeServed(t *testing.T) {
	f := newSiteFixture(t, "")
	tests := []struct {
		target string
		status int
		body   string // "" means any
	}{
		{"/", 200, "ran /index.php "},
		{"/app.php", 200, "ran /app.php "},
		{"//app.php", 200, "ran /app.php "},
		{"/app%2ephp", 200, "ran /app.php "},
		{"/app.php/", 200, "ran /app.php /"},
		{"/app.php/a/b", 200, "ran /app.php /a/b"},
		{"/app.php//a//b", 200, "ran /app.php //a//b"},
		{"/app.php/x.jpg", 200, "ran /app.php /x.jpg"},
		{"/app.php/x.php", 200, "ran /app.php /x.php"},
		{"/dir.php/inner.php", 200, "ran /dir.php/inner.php "},
		{"/sub/", 200, "ran /sub/index.php "},
		{"/plain/", 200, "plain index"},
		{"/photo.jpg", 200, "jpeg"},
		{"/a%20b.txt", 200, "blank"},
		{"/in.txt", 200, "note"},
		{"/in.php", 200, "ran /in.php "},
		{"/.well-known/acme", 200, "token"},

		{"/sub", 301, ""},
		{"/photo.jpg/x.php", 404, ""},
		{"/photo.jpg/", 404, ""},
		{"/photo.jpg%00.php", 400, ""},
		{"/missing.php", 404, ""},
		{"/missing.php/app.php", 404, ""},
		{"/missing", 404, ""},
		{"/empty/", 404, ""},
		{"/.env", 404, ""},
		{"/%2eenv", 404, ""},
		{"/.git/config", 404, ""},
		{"/.hidden.php", 404, ""},
		{"/sub/.htaccess", 404, ""},
		{"/app.php/.well-known", 404, ""},
		{"/app.php.bak", 404, ""},
		{"/app.php~", 404, ""},
		{"/lib.inc", 404, ""},
		{"/APP.PHP", 404, ""},
		{"/out.txt", 404, ""},
		{"/out.php", 404, ""},
		{"/out/secret.php", 404, ""},
		{"/out/", 404, ""},
		{"/pipe.txt", 404, ""},
		{"/" + strings.Repeat("x", 5000), 404, ""},

		{"/../app.php", 400, ""},
		{"/sub/../app.php", 400, ""},
		{"/sub/%2e%2e/app.php", 400, ""},
		{"/sub/.%2E/app.php", 400, ""},
		{"/./app.php", 400, ""},
		{"/app.php/../x", 400, ""},
		{"/sub%2findex.php", 400, ""},
		{"/sub%2Findex.php", 400, ""},
		{"/..%5capp.php", 400, ""},
		{"/app.php%00", 400, ""},
		{"/app.php%0a", 400, ""},
		{"*", 400, ""},
		{"app.php", 400, ""},
	}
	for _, tt := range tests {
		a := f.raw("GET " + tt.target + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		if a.status != tt.status || tt.body != "" && a.body != tt.body {
			t.Errorf("%s: got %d %q, want %d %q", tt.target, a.status, a.body, tt.status, tt.body)
		}
		if strings.Contains(a.body, "SECRET") {
			t.Errorf("%s gave a secret away", tt.target)
		}
	}
}

func TestFallbackAnswersForMissingPathsOnly(t *testing.T) {
	f := newSiteFixture(t, "/index.php")
	for target, want := range map[string]string{
		"/missing": "ran /index.php ", "/a/b/c": "ran /index.php ", "/note.txt": "note", "/app.php": "ran /app.php ",
	} {
		if a := f.get(target); a.body != want {
			t.Errorf("%s: got %d %q, want %q", target, a.status, a.body, want)
		}
	}
	for _, target := range []string{"/.env", "/app.php~", "/missing.php", "/out.txt"} {
		if a := f.get(target); strings.Contains(a.body, "SECRET") {
			t.Errorf("%s gave a secret away", target)
		}
	}
}

func TestDirectoryRedirectStaysOnThisHost(t *testing.T) {
	f := newSiteFixture(t, "")
	a := f.raw("GET //sub?q=1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	if got := a.header.Get("Location"); a.status != 301 || got != "/sub/?q=1" {
		t.Errorf("got %d to %q, want 301 to /sub/?q=1", a.status, got)
	}
	if a := f.do(f.request("POST", "/sub", nil)); a.status != 308 {
		t.Errorf("POST: got %d, want 308, which keeps the method", a.status)
	}
}

func TestStaticFilesAnswerConditionsAndRanges(t *testing.T) {
	f := newSiteFixture(t, "")
	a := f.get("/note.txt")
	if a.header.Get("Content-Type") != "text/plain; charset=utf-8" || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("head is %v", a.header)
	}
	r := f.request("GET", "/note.txt", nil)
	r.Header.Set("If-Modified-Since", a.header.Get("Last-Modified"))
	if a := f.do(r); a.status != 304 || a.body != "" {
		t.Errorf("not modified: got %d %q", a.status, a.body)
	}
	r = f.request("GET", "/note.txt", nil)
	r.Header.Set("Range", "bytes=1-2")
	if a := f.do(r); a.status != 206 || a.body != "ot" {
		t.Errorf("range: got %d %q", a.status, a.body)
	}
	if a := f.do(f.request("HEAD", "/note.txt", nil)); a.status != 200 || a.body != "" || a.header.Get("Content-Length") != "4" {
		t.Errorf("HEAD: got %d %q %v", a.status, a.body, a.header)
	}
	if a := f.get("/data.unknownext"); a.header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("the type of an unknown file was guessed as %q", a.header.Get("Content-Type"))
	}
	a = f.do(f.request("POST", "/note.txt", nil))
	f.wantRefusal(a, ErrMethod)
	if a.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("Allow is %q", a.header.Get("Allow"))
	}
}

func TestConfigIsRefusedWithItsReason(t *testing.T) {
	good := Config{Address: "unix:/x.sock", Docroot: t.TempDir()}
	for want, change := range map[string]func(*Config){
		"neither unix:/path nor host:port": func(c *Config) { c.Address = "/x.sock" },
		"names no socket":                  func(c *Config) { c.Address = "unix:" },
		"document root":                    func(c *Config) { c.Docroot = filepath.Join(c.Docroot, "missing") },
		"not a .php file":                  func(c *Config) { c.Fallback = "../index.php" },
		"MaxHeaderLine is 1":               func(c *Config) { c.MaxHeaderLine = 1 },
		"must not be negative":             func(c *Config) { c.Timeout = -1 },
	} {
		c := good
		change(&c)
		if _, err := NewFront(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := NewFront(Config{Address: "h:1", Docroot: file}); err == nil {
		t.Error("a file was taken for a document root")
	}
}

func TestEveryErrorHasOneAnswer(t *testing.T) {
	all := []error{
		ErrUnavailable, ErrBusy, ErrTimeout, ErrBrokenOff, ErrMalformed, ErrHeaderTooLong, ErrVisitorGone, ErrBodyTooLarge,
		ErrBodyTimeout, ErrBodyBroken, ErrSpool, ErrRequestHeadTooLarge, ErrPath, ErrNotFound, ErrMethod,
	}
	if len(all) != len(refusals) {
		t.Errorf("%d errors, %d rows", len(all), len(refusals))
	}
	sentences := map[string]bool{}
	for _, err := range all {
		row := refusalOf(fmt.Errorf("wrapped: %w", err))
		if row.err != err || row.status < 400 || row.sentence == "" || sentences[row.sentence] {
			t.Errorf("%v has the row %+v", err, row)
		}
		sentences[row.sentence] = true
	}
	if row := refusalOf(os.ErrClosed); row.status != 500 {
		t.Errorf("an unknown error is answered with %d", row.status)
	}
}
