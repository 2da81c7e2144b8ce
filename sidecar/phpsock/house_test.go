package phpsock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/client"
	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/tenant"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// limit is how long a test waits for what must happen, on a busy machine.
const limit = 20 * time.Second

// house is a server on a real socket, over a real locker and store.
type house struct {
	t    testing.TB
	s    *Server
	l    *locker.Locker
	path string
	log  *logged
}

// logged keeps what is logged.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// open starts a server with the usual settings but for what change does.
func open(t testing.TB, change func(*Config, *locker.Config)) *house {
	t.Helper()
	h := &house{t: t, path: filepath.Join(t.TempDir(), "s"), log: &logged{}}
	log := slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	reg := prometheus.NewRegistry()
	cfg := Config{
		Path: h.path, File: File{Mode: 0o660}, Tenant: tenant.New("default", tenant.Limits{}, nil), MaxFrame: 1 << 20,
		Connections: tenant.NewQuota(100), Timeout: limit, Version: "test",
		Log: log, Metrics: NewMetrics(reg),
		Status: func(context.Context) (wire.Pairs, error) { return wire.Pairs{{Key: "version", Value: "test"}}, nil },
	}
	lcfg := locker.Config{
		Lease: 30 * time.Second, MaxHold: 10 * time.Minute, MaxWait: time.Minute, MaxWaiters: 64,
		Log: log, Metrics: locker.NewMetrics(reg),
	}
	if change != nil {
		change(&cfg, &lcfg)
	}
	h.l = locker.New(arbiter.NewLocal(store.New(store.Limits{}), func() int64 { return time.Now().UnixMilli() }, nil), lcfg)
	var err error
	if h.s, err = Listen(cfg, h.l); err != nil {
		t.Fatal(err)
	}
	h.s.Ready()
	h.run()
	return h
}

// another is a second server, over the same locker, that is not ready yet.
func (h *house) another(change func(*Server)) *house {
	h.t.Helper()
	cfg := h.s.cfg
	cfg.Path += "2"
	s, err := Listen(cfg, h.l)
	if err != nil {
		h.t.Fatal(err)
	}
	if change != nil {
		change(s)
	}
	other := &house{t: h.t, s: s, l: h.l, path: cfg.Path, log: h.log}
	other.run()
	return other
}

// run serves until the test ends.
func (h *house) run() {
	served := make(chan error, 1)
	go func() { served <- h.s.Serve() }()
	h.t.Cleanup(func() {
		h.s.Close()
		if err := <-served; err != nil {
			h.t.Errorf("Serve: %v", err)
		}
	})
}

// until waits for a condition and fails the test when it does not come.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(200 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", limit, what)
		}
	}
}

// visitor is a client of the package's own.
type visitor struct {
	*client.Client
	t testing.TB
}

func (h *house) visit() *visitor {
	h.t.Helper()
	c, err := client.Dial(h.t.Context(), h.path, "test/1")
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	return &visitor{c, h.t}
}

// p makes parameters of names and values in turn.
func p(list ...any) (pairs wire.Pairs) {
	for i := 0; i < len(list); i += 2 {
		pairs = append(pairs, wire.Pair{Key: list[i].(string), Value: list[i+1]})
	}
	return pairs
}

// ask calls a method that must succeed.
func (v *visitor) ask(method string, params ...any) any {
	v.t.Helper()
	result, err := v.Call(v.t.Context(), method, p(params...))
	if err != nil {
		v.t.Fatalf("%s %v: %v", method, params, err)
	}
	return result
}

// fails calls a method that must fail with a code, and a reason unless it is empty.
func (v *visitor) fails(code wire.Code, reason, method string, params ...any) *wire.Error {
	v.t.Helper()
	result, err := v.Call(v.t.Context(), method, p(params...))
	e := wantError(v.t, fmt.Sprintf("%s %v", method, params), result, err, code)
	if e != nil && reason != "" && detail(e, "reason") != reason {
		v.t.Errorf("%s %v: reason %v, want %s", method, params, detail(e, "reason"), reason)
	}
	return e
}

func wantError(t testing.TB, what string, result any, err error, code wire.Code) *wire.Error {
	t.Helper()
	var e *wire.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("%s: %v, %v; want %s", what, result, err, code)
		return nil
	}
	return e
}

func detail(e *wire.Error, key string) any {
	for _, d := range e.Details {
		if d.Key == key {
			return d.Value
		}
	}
	return nil
}

// show writes a result so that it can be compared: bytes as text, maps in the order of their keys.
func show(v any) string {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = show(v[i])
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprint(v)
}

// field returns an entry of a result that is a map.
func field(t testing.TB, result any, key string) any {
	t.Helper()
	m, ok := result.(map[string]any)
	if !ok {
		t.Fatalf("%v is no map", result)
	}
	return m[key]
}

// rawConn is a connection that sends what it likes.
type rawConn struct {
	net.Conn
	t testing.TB
	b []byte
}

func (h *house) raw() *rawConn {
	h.t.Helper()
	nc, err := net.Dial("unix", h.path)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(limit))
	return &rawConn{Conn: nc, t: h.t}
}

// greeted is a raw connection that has said hello.
func (h *house) greeted() *rawConn {
	h.t.Helper()
	r := h.raw()
	r.send(hello(1))
	if id, _, err := r.next(); err != nil || id != 1 {
		h.t.Fatalf("hello: %d, %v", id, err)
	}
	return r
}

func hello(id uint32) []byte {
	return wire.AppendRequest(nil, id, "hello", p("version", wire.Version, "client", "raw/1"))
}

func (r *rawConn) send(parts ...[]byte) {
	r.t.Helper()
	if _, err := r.Write(bytes.Join(parts, nil)); err != nil {
		r.t.Fatal(err)
	}
}

// frame reads one frame; io.EOF says that the daemon closed the connection.
func (r *rawConn) frame() ([]byte, error) {
	for {
		frame, rest, err := wire.Next(r.b, 64<<20)
		if err == nil {
			r.b = rest
			return frame, nil
		}
		if !errors.Is(err, wire.ErrIncomplete) {
			return nil, err
		}
		buf := make([]byte, 64<<10)
		n, err := r.Read(buf)
		if n == 0 && err != nil {
			return nil, err
		}
		r.b = append(r.b, buf[:n]...)
	}
}

// next reads one answer.
func (r *rawConn) next() (id uint32, result any, err error) {
	frame, err := r.frame()
	if err != nil {
		return 0, nil, err
	}
	return wire.DecodeResponse(frame)
}

// closed fails the test unless the daemon has closed the connection.
func (r *rawConn) closed(what string) {
	r.t.Helper()
	if frame, err := r.frame(); err == nil {
		r.t.Errorf("%s: got an answer %x, want the end", what, frame)
	} else if !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
		r.t.Errorf("%s: %v, want the end", what, err)
	}
}
