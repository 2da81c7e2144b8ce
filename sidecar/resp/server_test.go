package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/tenant"
)

// serve returns a server that serves, and its address.
func serve(t *testing.T, change ...func(*Config)) (*Server, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "resp.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	a := arbiter.NewLocal(store.New(store.Limits{}), func() int64 { return 1_000_000 }, nil)
	l := locker.New(a, locker.Config{Log: slog.New(slog.DiscardHandler), Metrics: locker.NewMetrics(registry)})
	cfg := Config{
		Tenant: "test", Tenants: tenant.NewSet(map[string]tenant.Limits{"test": {Commands: 1 << 20}}, nil), Connections: tenant.NewQuota(1000),
		MaxArguments: 100, MaxCommand: 1 << 20, OutputBuffer: 1 << 20, Timeout: time.Minute,
		Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(registry),
	}
	for _, f := range change {
		f(&cfg)
	}
	s := New(cfg, listener, l)
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

// client is the other end of a connection.
type client struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func dial(t *testing.T, path string) *client {
	t.Helper()
	nc, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	return &client{nc, t, bufio.NewReader(nc)}
}

// send sends words as one command.
func (c *client) send(words ...string) {
	c.t.Helper()
	if _, err := io.WriteString(c, encode(words...)); err != nil {
		c.t.Fatal(err)
	}
}

func encode(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
	}
	return b.String()
}

// expect reads a line that must begin so.
func (c *client) expect(beginning string) {
	c.t.Helper()
	if line, err := c.r.ReadString('\n'); err != nil || !strings.HasPrefix(line, beginning) {
		c.t.Fatalf("answered %q, %v; want %s", line, err, beginning)
	}
}

// ends fails the test unless the server ends the connection, and returns what it said before.
func (c *client) ends() string {
	c.t.Helper()
	said, err := io.ReadAll(c.r)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("it was not ended: %v, after %q", err, said)
	}
	return string(said)
}

// TestAnIdleClientKeepsNothingOfItsLastCommand: the buffers of many clients would be more than all of them may take.
func TestAnIdleClientKeepsNothingOfItsLastCommand(t *testing.T) {
	s, path := serve(t)
	defer s.Close()
	inUse := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const clients, size = 60, 400_000
	value, before := strings.Repeat("v", size), inUse()
	for i := range clients {
		c := dial(t, path)
		switch i % 3 {
		case 0:
			c.send("SET", "k", value)
		case 1:
			c.send("MSET", "k", value, "l", "w")
		case 2:
			c.send("MSET", "k", value, "l", "w")
			c.send("SET", "l", "x") // plans less, so something of the first is left behind
			c.expect("+OK")
		}
		c.expect("+OK")
	}
	var grown int64
	within(t, 10*time.Second, "idle clients keep what they sent", func() bool {
		grown = inUse() - before
		return grown < clients*size/4
	})
	t.Logf("%d clients keep %d bytes", clients, grown)
}
