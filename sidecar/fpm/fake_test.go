package fpm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// limit is how long a test waits for something that should happen at once.
const limit = 20 * time.Second

// fakeRequest is what a fake php-fpm was sent.
type fakeRequest struct {
	params map[string]string
	stdin  []byte
	keep   bool
}

// answerFunc plays php-fpm for one request; the connection is closed when it returns.
type answerFunc func(c net.Conn, r fakeRequest)

// startFake starts a fake php-fpm with one worker per connection and returns its address.
func startFake(t *testing.T, answer answerFunc) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fpm.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveFake(c, answer)
		}
	}()
	return "unix:" + path
}

func serveFake(c net.Conn, answer answerFunc) {
	defer c.Close()
	if r, err := readFakeRequest(bufio.NewReader(c)); err == nil {
		answer(c, r)
	}
}

// readFakeRequest reads one request, by code that shares nothing with the package.
func readFakeRequest(in io.Reader) (fakeRequest, error) {
	r := fakeRequest{params: map[string]string{}}
	for {
		var h [8]byte
		if _, err := io.ReadFull(in, h[:]); err != nil {
			return r, err
		}
		content := make([]byte, binary.BigEndian.Uint16(h[4:]))
		if _, err := io.ReadFull(in, content); err != nil {
			return r, err
		}
		if _, err := io.CopyN(io.Discard, in, int64(h[6])); err != nil {
			return r, err
		}
		switch h[1] {
		case 1:
			r.keep = content[2]&1 == 1
		case 4:
			readFakeParams(r.params, content)
		case 5:
			if r.stdin = append(r.stdin, content...); len(content) == 0 {
				return r, nil
			}
		}
	}
}

func readFakeParams(params map[string]string, b []byte) {
	length := func() int {
		if b[0] < 128 {
			n := int(b[0])
			b = b[1:]
			return n
		}
		n := int(binary.BigEndian.Uint32(b) & 0x7fffffff)
		b = b[4:]
		return n
	}
	for len(b) > 0 {
		n, v := length(), 0
		v = length()
		params[string(b[:n])] = string(b[n : n+v])
		b = b[n+v:]
	}
}

// rec is one record as php-fpm sends it.
func rec(kind byte, content string) string {
	pad := (8 - len(content)%8) % 8
	h := []byte{1, kind, 0, 1, byte(len(content) >> 8), byte(len(content)), byte(pad), 0}
	return string(h) + content + strings.Repeat("\x00", pad)
}

const endOK = "\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// page200 is a whole answer.
func page200(body string) string { return rec(6, "Content-Type: text/plain\r\n\r\n"+body) + endOK }

// sends answers every request with the same bytes.
func sends(raw string) answerFunc {
	return func(c net.Conn, _ fakeRequest) { io.WriteString(c, raw) }
}

// logBuffer keeps what was logged.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// fixture is a Front behind an HTTP server.
type fixture struct {
	t       *testing.T
	front   *Front
	server  *httptest.Server
	docroot string
	log     *logBuffer
}

// newFixture serves a document root with an index.php for the given pool.
func newFixture(t *testing.T, address string, change func(*Config)) *fixture {
	t.Helper()
	docroot := t.TempDir()
	log := &logBuffer{}
	cfg := Config{
		Address: address, Docroot: docroot, TempDir: t.TempDir(),
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&cfg)
	}
	front, err := NewFront(cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(front)
	f := &fixture{t: t, front: front, server: server, docroot: docroot, log: log}
	t.Cleanup(func() {
		server.Close()
		front.Close()
	})
	f.file("index.php", "<?php echo 'index';")
	return f
}

// file writes a file below the document root.
func (f *fixture) file(name, content string) {
	f.t.Helper()
	path := filepath.Join(f.docroot, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// answer is an HTTP answer that was read to its end.
type answer struct {
	status  int
	header  http.Header
	body    string
	bodyErr error
}

// do sends a request and reads the answer.
func (f *fixture) do(r *http.Request) answer {
	f.t.Helper()
	resp, err := f.server.Client().Transport.RoundTrip(r)
	if err != nil {
		f.t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b), err}
}

func (f *fixture) request(method, path string, body io.Reader) *http.Request {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), limit)
	f.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, f.server.URL+path, body)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fixture) get(path string) answer {
	f.t.Helper()
	return f.do(f.request(http.MethodGet, path, nil))
}

// raw sends bytes that an HTTP client would not send, and reads one answer.
func (f *fixture) raw(text string) answer {
	f.t.Helper()
	c, err := net.Dial("tcp", f.server.Listener.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(limit))
	if _, err := io.WriteString(c, text); err != nil {
		f.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		f.t.Fatalf("answer to %q: %v", text, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b), err}
}

// wantRefusal checks that a is err's row of the table, and gives nothing of this host away.
func (f *fixture) wantRefusal(a answer, err error) {
	f.t.Helper()
	row := refusalOf(err)
	if a.status != row.status || a.body != row.sentence+"\n" {
		f.t.Errorf("got %d %q, want %d %q", a.status, a.body, row.status, row.sentence)
	}
	if strings.Contains(a.body, f.docroot) || strings.Contains(fmt.Sprint(a.header), f.docroot) {
		f.t.Errorf("the answer names the document root: %v %q", a.header, a.body)
	}
	if !strings.Contains(f.log.String(), err.Error()) {
		f.t.Errorf("the log does not say %q:\n%s", err, f.log)
	}
}

// receive takes a value from ch, or fails after the limit.
func receive[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(limit):
		t.Fatalf("%s did not happen within %s", what, limit)
		panic("unreachable")
	}
}
