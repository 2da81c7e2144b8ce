package resp

import (
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/tenant"
)

// serve returns a server that serves, and its address.
func serve(t *testing.T) (*Server, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "resp.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	a := arbiter.NewLocal(store.New(store.Limits{}), func() int64 { return 1_000_000 }, nil)
	l := locker.New(a, locker.Config{Log: slog.New(slog.DiscardHandler), Metrics: locker.NewMetrics(registry)})
	s := New(Config{
		Tenant: "test", Tenants: tenant.NewSet(map[string]tenant.Limits{"test": {Commands: 1 << 20}}, nil), Connections: tenant.NewQuota(1000),
		MaxArguments: 100, MaxCommand: 1 << 20, OutputBuffer: 1 << 20, Timeout: time.Minute,
		Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(registry),
	}, listener, l)
	go s.Serve()
	return s, path
}

// within fails the test unless done becomes true in time.
func within(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	for began := time.Now(); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > limit {
			t.Fatal(what)
		}
	}
}

// TestAnEndThatComesWithTheLastBytesIsSeen: the poller tells of both at once, and only once.
func TestAnEndThatComesWithTheLastBytesIsSeen(t *testing.T) {
	s, path := serve(t)
	defer s.Close()
	for _, last := range []string{"\r\n", "PING\r\n", "*1\r\n$4\r\nPI", "SET k v\r\n"} {
		for range 100 {
			nc, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			nc.Write([]byte(last))
			nc.Close()
		}
	}
	within(t, 10*time.Second, "connections whose clients have gone are still open", func() bool { return s.Connections() == 0 })
}

// TestCloseEndsThoughAClientKeepsSending: what was read is answered, and no more is read.
func TestCloseEndsThoughAClientKeepsSending(t *testing.T) {
	s, path := serve(t)
	nc, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sent := make(chan error, 1)
	go func() {
		for {
			if _, err := nc.Write([]byte("SET key value\r\nSET key value\r\n")); err != nil {
				sent <- err
				return
			}
		}
	}()
	go func() {
		answers := make([]byte, 64<<10)
		for {
			if _, err := nc.Read(answers); err != nil {
				return
			}
		}
	}()
	within(t, 10*time.Second, "the client is not served", func() bool { return s.Connections() == 1 })
	closed := make(chan struct{})
	go func() {
		s.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Fatal("the server still serves the client")
	}
	if err := <-sent; errors.Is(err, net.ErrClosed) {
		t.Errorf("the client closed by itself: %v", err)
	}
}
