package fpm

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// recorder answers with a page and hands the request over.
func recorder(t *testing.T) (string, <-chan fakeRequest) {
	got := make(chan fakeRequest, 16)
	return startFake(t, func(c net.Conn, r fakeRequest) {
		got <- r
		sends(page200("ok"))(c, r)
	}), got
}

func TestParamsDescribeTheRequest(t *testing.T) {
	address, got := recorder(t)
	f := newFixture(t, address, nil)
	r := f.request("POST", "/index.php/rest%20of?a=1&b=%2F", strings.NewReader("body"))
	r.Header.Set("Content-Type", "text/x")
	r.Header.Set("X-Long", strings.Repeat("v", 300))
	if a := f.do(r); a.status != 200 || a.body != "ok" {
		t.Fatalf("got %d %q", a.status, a.body)
	}
	p := receive(t, got, "the request").params
	host, port, _ := net.SplitHostPort(f.server.Listener.Addr().String())
	for name, want := range map[string]string{
		"SCRIPT_FILENAME": f.docroot + "/index.php", "SCRIPT_NAME": "/index.php", "DOCUMENT_ROOT": f.docroot,
		"PATH_INFO": "/rest of", "PATH_TRANSLATED": f.docroot + "/rest of", "DOCUMENT_URI": "/index.php/rest of",
		"REQUEST_URI": "/index.php/rest%20of?a=1&b=%2F", "QUERY_STRING": "a=1&b=%2F", "REQUEST_METHOD": "POST",
		"CONTENT_LENGTH": "4", "CONTENT_TYPE": "text/x", "SERVER_PROTOCOL": "HTTP/1.1", "GATEWAY_INTERFACE": "CGI/1.1",
		"SERVER_NAME": host, "SERVER_PORT": port, "SERVER_ADDR": host, "REMOTE_ADDR": "127.0.0.1", "REQUEST_SCHEME": "http",
		"HTTP_HOST": host + ":" + port, "HTTP_X_LONG": strings.Repeat("v", 300), "REDIRECT_STATUS": "200",
	} {
		if p[name] != want {
			t.Errorf("%s is %q, want %q", name, p[name], want)
		}
	}
	for _, name := range []string{"HTTPS", "HTTP_CONTENT_LENGTH", "HTTP_CONTENT_TYPE"} {
		if v, ok := p[name]; ok {
			t.Errorf("%s is set to %q", name, v)
		}
	}
}

func TestHeadersCannotPoseAsOthers(t *testing.T) {
	address, got := recorder(t)
	f := newFixture(t, address, nil)
	f.raw("GET / HTTP/1.1\r\nHost: h\r\nProxy: http://evil\r\nX_User: evil\r\nX-User: real\r\nContent_Length: 9\r\n" +
		"X-Twice: a\r\nX-Twice: b\r\nCookie: a=1\r\nCookie: b=2\r\nX.Dot: evil\r\nConnection: close\r\n\r\n")
	p := receive(t, got, "the request").params
	for name, want := range map[string]string{
		"HTTP_X_USER": "real", "HTTP_X_TWICE": "a, b", "HTTP_COOKIE": "a=1; b=2", "HTTP_HOST": "h",
		"HTTP_PROXY": "", "CONTENT_LENGTH": "", "HTTP_CONTENT_LENGTH": "", "HTTP_X_DOT": "",
	} {
		if p[name] != want {
			t.Errorf("%s is %q, want %q", name, p[name], want)
		}
	}
	for name, value := range p {
		if strings.Contains(value, "evil") {
			t.Errorf("%s is %q", name, value)
		}
	}
}

func TestChunkedBodyArrivesWithItsLength(t *testing.T) {
	address, got := recorder(t)
	f := newFixture(t, address, nil)
	for _, size := range []int{0, 1, inlineLimit, memoryBody, memoryBody + 1, 1 << 20} {
		content := bytes.Repeat([]byte("x"), size)
		// A reader of unknown length makes the client send chunks.
		if a := f.do(f.request("POST", "/", io.MultiReader(bytes.NewReader(content)))); a.status != 200 {
			t.Fatalf("%d bytes: got %d %q", size, a.status, a.body)
		}
		r := receive(t, got, "the request")
		if !bytes.Equal(r.stdin, content) || r.params["CONTENT_LENGTH"] != strconv.Itoa(size) && size > 0 {
			t.Errorf("%d bytes: %d arrived, CONTENT_LENGTH %q", size, len(r.stdin), r.params["CONTENT_LENGTH"])
		}
	}
	if left, _ := os.ReadDir(f.front.cfg.TempDir); len(left) > 0 {
		t.Errorf("temporary files left: %v", left)
	}
}

func TestBodyAboveTheLimitIsRefused(t *testing.T) {
	address, got := recorder(t)
	f := newFixture(t, address, func(c *Config) { c.MaxBody = 1000 })
	f.wantRefusal(f.do(f.request("POST", "/", strings.NewReader(strings.Repeat("x", 1001)))), ErrBodyTooLarge)
	f.wantRefusal(f.do(f.request("POST", "/", io.MultiReader(strings.NewReader(strings.Repeat("x", 1001))))), ErrBodyTooLarge)
	f.wantRefusal(f.raw("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9223372036854775807\r\n\r\n"), ErrBodyTooLarge)
	if a := f.do(f.request("POST", "/", strings.NewReader(strings.Repeat("x", 1000)))); a.status != 200 {
		t.Errorf("a body of just the limit: got %d", a.status)
	}
	if r := receive(t, got, "the last request"); len(r.stdin) != 1000 {
		t.Errorf("php-fpm was sent a refused body of %d bytes", len(r.stdin))
	}
}

func TestBodyThatDoesNotArriveIsRefused(t *testing.T) {
	address, got := recorder(t)
	f := newFixture(t, address, func(c *Config) { c.BodyTimeout = 20 * time.Millisecond })
	f.wantRefusal(f.raw("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab"), ErrBodyTimeout)
	f.wantRefusal(f.raw("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n"), ErrBodyBroken)
	if len(got) > 0 {
		t.Error("php-fpm was sent a request with half a body")
	}
}

func TestBodyThatCannotBeSpooledIsRefused(t *testing.T) {
	address, _ := recorder(t)
	f := newFixture(t, address, func(c *Config) { c.TempDir = filepath.Join(c.TempDir, "missing") })
	f.wantRefusal(f.do(f.request("POST", "/", bytes.NewReader(make([]byte, memoryBody+1)))), ErrSpool)
}

// deadlineWriter keeps the read deadlines that were set.
type deadlineWriter struct {
	http.ResponseWriter
	deadlines []time.Time
}

func (w *deadlineWriter) SetReadDeadline(t time.Time) error {
	w.deadlines = append(w.deadlines, t)
	return nil
}

func TestBodyDeadlineIsTakenAwayAfterTheBody(t *testing.T) {
	cfg := Config{Address: "h:1"}.withDefaults()
	w := &deadlineWriter{}
	b, err := readBody(w, httptest.NewRequest("POST", "/", strings.NewReader("x")), &cfg)
	if err != nil || b.size != 1 {
		t.Fatalf("got %v, %v", b, err)
	}
	if len(w.deadlines) != 2 || w.deadlines[0].IsZero() || !w.deadlines[1].IsZero() {
		t.Errorf("deadlines set: %v; a long answer would be cut", w.deadlines)
	}
}

func TestPoolAwayIsSaid(t *testing.T) {
	f := newFixture(t, "unix:"+filepath.Join(t.TempDir(), "nobody.sock"), nil)
	f.wantRefusal(f.get("/"), ErrUnavailable)
	f = newFixture(t, "127.0.0.1:1", nil)
	f.wantRefusal(f.get("/"), ErrUnavailable)
}

func TestSilentWorkerIsGivenUp(t *testing.T) {
	hung := make(chan struct{})
	address := startFake(t, func(c net.Conn, _ fakeRequest) {
		io.Copy(io.Discard, c) // until the front closes
		close(hung)
	})
	f := newFixture(t, address, func(c *Config) { c.Timeout = 30 * time.Millisecond })
	f.wantRefusal(f.get("/"), ErrTimeout)
	receive(t, hung, "closing the connection")
}

func TestAnswersThatCannotBePassedOnAreSaid(t *testing.T) {
	for name, tt := range map[string]struct {
		raw  string
		want error
	}{
		"long header line": {rec(6, "X-Long: "+strings.Repeat("v", 20_000)+"\r\n\r\n") + endOK, ErrHeaderTooLong},
		"no FastCGI":       {"HTTP/1.1 200 OK\r\n\r\n", ErrMalformed},
		"closed at once":   {"", ErrBrokenOff},
		"closed in head":   {rec(6, "X: y\r\n"), ErrBrokenOff},
		"overloaded":       {rec(3, "\x00\x00\x00\x00\x02\x00\x00\x00"), ErrBusy},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, startFake(t, sends(tt.raw)), nil)
			f.wantRefusal(f.get("/"), tt.want)
		})
	}
}

func TestLongButAllowedHeaderLinePasses(t *testing.T) {
	value := strings.Repeat("v", 15_000)
	f := newFixture(t, startFake(t, sends(rec(6, "X-Long: "+value+"\r\n\r\n")+endOK)), nil)
	if a := f.get("/"); a.header.Get("X-Long") != value {
		t.Errorf("got %d, a header of %d bytes", a.status, len(a.header.Get("X-Long")))
	}
}

func TestBrokenAnswerIsNeverPassedOnAsWhole(t *testing.T) {
	for name, raw := range map[string]string{
		"worker killed":               rec(6, "X: y\r\n\r\n"+strings.Repeat("b", 10_000)),
		"longer than its length":      rec(6, "Content-Length: 3\r\n\r\n"+strings.Repeat("b", 10_000)) + endOK,
		"nonsense after the head":     rec(6, "X: y\r\n\r\nbody") + "nonsense",
		"shorter than its own length": rec(6, "Content-Length: 9\r\n\r\nshort") + endOK,
	} {
		f := newFixture(t, startFake(t, sends(raw)), nil)
		resp, err := f.server.Client().Transport.RoundTrip(f.request("GET", "/", nil))
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if err == nil {
			t.Errorf("%s: the visitor took it for whole", name)
		}
	}
}

func TestStatusesAndHeadersPass(t *testing.T) {
	tests := []struct {
		head, body string
		status     int
		header     map[string]string
	}{
		{"Status: 404 Not Found\r\n", "none", 404, nil},
		{"Status: 204 No Content\r\n", "dropped", 204, nil},
		{"Status: 304 Not Modified\r\nETag: x\r\n", "dropped", 304, map[string]string{"Etag": "x"}},
		{"Location: /there\r\n", "", 302, map[string]string{"Location": "/there"}},
		{"Status: 307 T\r\nLocation: //host/x\r\n", "", 307, map[string]string{"Location": "//host/x"}},
		{"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n", "x", 200, map[string]string{"Set-Cookie": "a=1|b=2"}},
		{"X: y\n", "<html>", 200, map[string]string{"Content-Type": ""}},
	}
	for _, tt := range tests {
		body := tt.body
		f := newFixture(t, startFake(t, sends(rec(6, tt.head+"\r\n"+body)+endOK)), nil)
		a := f.get("/")
		if body == "dropped" {
			body = ""
		}
		if a.status != tt.status || a.body != body || a.bodyErr != nil {
			t.Errorf("%q: got %d %q %v", tt.head, a.status, a.body, a.bodyErr)
		}
		for name, want := range tt.header {
			if got := strings.Join(a.header[name], "|"); got != want {
				t.Errorf("%q: %s is %q, want %q", tt.head, name, got, want)
			}
		}
	}
}

func TestTooManyRequestHeadersAreRefused(t *testing.T) {
	address, got := recorder(t)
	f := newFixture(t, address, nil)
	r := f.request("GET", "/", nil)
	r.Header.Set("X-Big", strings.Repeat("v", 60_000))
	if a := f.do(r); a.status != 200 || len(receive(t, got, "the request").params["HTTP_X_BIG"]) != 60_000 {
		t.Errorf("60,000 bytes: got %d", a.status)
	}
	r.Header.Set("X-More", strings.Repeat("v", 10_000))
	f.wantRefusal(f.do(r), ErrRequestHeadTooLarge)
}

func TestOutputIsPassedOnAsItComes(t *testing.T) {
	next := make(chan struct{})
	f := newFixture(t, startFake(t, func(c net.Conn, r fakeRequest) {
		io.WriteString(c, rec(6, "X: y\r\n\r\nfirst"))
		<-next
		io.WriteString(c, rec(6, "second")+endOK)
	}), nil)
	resp, err := f.server.Client().Transport.RoundTrip(f.request("GET", "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b := make([]byte, 5)
	if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "first" {
		t.Fatalf("got %q, %v before the second part was written", b, err)
	}
	close(next)
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "second" {
		t.Errorf("got %q, %v", rest, err)
	}
}

func TestLeavingVisitorEndsTheRequest(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	f := newFixture(t, startFake(t, func(c net.Conn, _ fakeRequest) {
		close(begun)
		io.Copy(io.Discard, c)
		close(ended)
	}), nil)
	ctx, cancel := context.WithCancel(t.Context())
	r := f.request("GET", "/", nil).WithContext(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := f.server.Client().Transport.RoundTrip(r); err == nil {
			resp.Body.Close()
		}
	}()
	receive(t, begun, "the request")
	cancel()
	receive(t, ended, "closing the connection to php-fpm")
	receive(t, done, "the end of the request")
}

func TestVisitorThatDoesNotReadIsGivenUp(t *testing.T) {
	ended := make(chan struct{})
	f := newFixture(t, startFake(t, func(c net.Conn, _ fakeRequest) {
		defer close(ended)
		io.WriteString(c, rec(6, "X: y\r\n\r\n"))
		for {
			if _, err := io.WriteString(c, rec(6, strings.Repeat("b", 60_000))); err != nil {
				return
			}
		}
	}), func(c *Config) { c.Timeout = 50 * time.Millisecond })
	c, err := net.Dial("tcp", f.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	receive(t, ended, "closing the connection to php-fpm")
}

func TestScriptThatIgnoresALargeBodyStillAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, page200(strings.Repeat("b", 30_000)))
			defer c.Close()
		}
	}()
	f := newFixture(t, "unix:"+path, nil)
	if a := f.do(f.request("POST", "/", bytes.NewReader(make([]byte, 5<<20)))); a.status != 200 || len(a.body) != 30_000 {
		t.Errorf("got %d, %d bytes, %v", a.status, len(a.body), a.bodyErr)
	}
}

func TestErrorStreamIsLoggedWithoutCookies(t *testing.T) {
	const id = "0123456789abcdef0123456789"
	var lines strings.Builder
	for i := range 100 {
		lines.WriteString("line " + strconv.Itoa(i) + "\n")
	}
	f := newFixture(t, startFake(t, sends(rec(7, "PHP message: bad session ")+rec(7, id+"\n"+strings.Repeat("y", 9000)+"\n"+lines.String())+page200("ok"))), nil)
	r := f.request("GET", "/?secret=query", nil)
	r.AddCookie(&http.Cookie{Name: "PHPSESSID", Value: id})
	if a := f.do(r); a.body != "ok" {
		t.Errorf("got %d %q", a.status, a.body)
	}
	log := f.log.String()
	if !strings.Contains(log, "bad session 012345…") || !strings.Contains(log, "line 20") {
		t.Errorf("the error stream is not in the log:\n%s", log)
	}
	for _, leak := range []string{id, "secret=query", "line 50", strings.Repeat("y", 1100)} {
		if strings.Contains(log, leak) {
			t.Errorf("the log has %.40q", leak)
		}
	}
}

func TestRequestGoesOutOnce(t *testing.T) {
	var taken atomic.Int32
	f := newFixture(t, startFake(t, func(net.Conn, fakeRequest) { taken.Add(1) }), nil) // a worker killed in the script
	f.wantRefusal(f.get("/"), ErrBrokenOff)
	if got := taken.Load(); got != 1 {
		t.Errorf("the script ran %d times", got)
	}
}

func TestConnectionToPHPEndsWithTheAnswer(t *testing.T) {
	// php-fpm's worker is free only when the front has closed its side.
	closed := make(chan struct{})
	f := newFixture(t, startFake(t, func(c net.Conn, r fakeRequest) {
		if r.keep {
			t.Error("php-fpm was asked to keep the connection")
		}
		io.WriteString(c, page200("ok")+page200("smuggled"))
		io.Copy(io.Discard, c)
		close(closed)
	}), nil)
	if a := f.get("/"); a.body != "ok" {
		t.Errorf("got %d %q", a.status, a.body)
	}
	receive(t, closed, "closing the connection to php-fpm")
}
