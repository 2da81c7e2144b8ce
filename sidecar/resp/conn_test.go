package resp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/tenant"
)

// standing returns a server's end of a connection whose other end says nothing, so that a test can serve it by itself.
func standing(t testing.TB) *conn {
	t.Helper()
	return standingOn(t, arbiter.NewLocal(store.New(store.Limits{}), func() int64 { return 1_000_000 }, nil))
}

// standingOn is standing with an arbiter.
func standingOn(t testing.TB, a arbiter.Arbiter) *conn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "resp.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	registry := prometheus.NewRegistry()
	l := locker.New(a, locker.Config{Log: slog.New(slog.DiscardHandler), Metrics: locker.NewMetrics(registry)})
	s := New(Config{
		Tenant: "test", Tenants: tenant.NewSet(map[string]tenant.Limits{"test": {Commands: 1 << 20}}, nil), Connections: tenant.NewQuota(1),
		MaxArguments: 100, MaxCommand: 1 << 20, OutputBuffer: 1 << 20, Timeout: time.Minute,
		Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(registry),
	}, listener, l)
	peer, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	nc, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	c, err := newConn(s, nc)
	if err != nil {
		t.Fatal(err)
	}
	if f := s.admit(c); f != "" {
		t.Fatal(f)
	}
	return c
}

// feed serves bytes as if they had arrived and returns the answers.
func (c *conn) feed(in string) string {
	room, err := c.room()
	if err != nil {
		return err.Error()
	}
	c.in.buf = c.in.buf[:len(c.in.buf)+copy(room, in)]
	c.w.out = c.w.out[:0]
	c.serveCommands()
	return string(c.w.out)
}

// TestReadingAllocatesNothing: a GET costs no memory beside its answer, which feed copies.
func TestReadingAllocatesNothing(t *testing.T) {
	c := standing(t)
	c.feed("SET k v\r\n")
	for command, want := range map[string]string{
		"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n":    "$1\r\nv\r\n",
		"*2\r\n$3\r\nTTL\r\n$1\r\nk\r\n":    ":-1\r\n",
		"*2\r\n$6\r\nSTRLEN\r\n$1\r\nk\r\n": ":1\r\n",
		"*1\r\n$4\r\nPING\r\n":              "+PONG\r\n",
	} {
		if got := c.feed(command); got != want {
			t.Fatalf("%q: %q", command, got)
		}
		if n := testing.AllocsPerRun(100, func() { c.feed(command) }); n > 1 { // the string that feed returns
			t.Errorf("%q: %v allocations", command, n)
		}
	}
}

// failing is an arbiter that decides nothing.
type failing struct{ err error }

func (f failing) Do(context.Context, *store.Command) (store.Result, error) {
	return store.Result{}, f.err
}

// TestNothingIsGuessedWhenNothingIsDecided: an owner that does not answer is CLUSTERDOWN for every way to ask, one that decided nothing TRYAGAIN, and neither a miss.
func TestNothingIsGuessedWhenNothingIsDecided(t *testing.T) {
	for err, class := range map[error]string{
		fmt.Errorf("node b: %w", arbiter.ErrUnreachable): "-CLUSTERDOWN ",
		fmt.Errorf("node b: %w", arbiter.ErrNotDecided):  "-TRYAGAIN ",
		arbiter.ErrSeveralOwners:                         "-CROSSSLOT ",
		fmt.Errorf("disk: %w", arbiter.ErrCannotKeep):    "-MISCONF ",
		fmt.Errorf("disk: %w", arbiter.ErrNotKept):       "-CLUSTERDOWN ",
		errors.New("something else"):                     "-ERR ",
	} {
		c := standingOn(t, failing{err})
		for _, command := range []string{
			"GET k", "SET k v", "DEL a b", "MGET a b", "MSETNX a 1 b 2", "KEYS *", "SCAN 0", "DBSIZE", "RANDOMKEY", "FLUSHALL", "INFO",
		} {
			if got := c.feed(command + "\r\n"); !strings.HasPrefix(got, class) || strings.Count(got, "\r\n") != 1 {
				t.Errorf("%s: %q, want %s", command, got, class)
			}
		}
		if got := c.feed("MULTI\r\nGET k\r\nEXEC\r\n"); !strings.HasPrefix(got, "+OK\r\n+QUEUED\r\n"+class) {
			t.Errorf("MULTI: %q", got)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	c := standing(b)
	c.feed("SET k v\r\n")
	b.ReportAllocs()
	for b.Loop() {
		c.feed("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")
	}
}

func BenchmarkSet(b *testing.B) {
	c := standing(b)
	b.ReportAllocs()
	for b.Loop() {
		c.feed("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n")
	}
}

// FuzzCommands: whatever is sent, nothing panics, and what a command may not do it does not.
func FuzzCommands(f *testing.F) {
	for _, seed := range []string{
		"SET k v EX 10 NX GET\r\n", "MULTI\r\nSET k v\r\nEXEC\r\n", "HSET h f v\r\nHGETALL h\r\n", "SCAN 0 MATCH a* COUNT 5\r\n",
		"EVAL \"return redis.call('exists',KEYS[1])<1 and redis.call('setex',KEYS[1],ARGV[2],ARGV[1])\" 1 k v 10\r\n",
		"HELLO 3 AUTH default x SETNAME y\r\n", "GETEX k PXAT 5\r\nEXPIRE k 5 XX LT\r\n", "COMMAND INFO get\r\nCONFIG GET *\r\n",
		"INCRBYFLOAT k 1e300\r\nINCRBY k 5\r\nAPPEND k x\r\nRENAME k l\r\n", "KEYS [a-\r\nDELEX k IFEQ v\r\nDELIFEQ k v\r\n", "CLIENT INFO\r\nINFO\r\n",
	} {
		f.Add(seed)
	}
	c := standing(f)
	f.Fuzz(func(t *testing.T, in string) {
		c.in = newReader(readLimits{args: c.s.cfg.MaxArguments, size: c.s.cfg.MaxCommand})
		c.multi, c.quit, c.w.resp3 = nil, false, false
		c.welcome(defaultUser, "test")
		c.feed(in)
		if c.space.Tenant != "test" {
			t.Errorf("%q changed the tenant to %q", in, c.space.Tenant)
		}
		if len(c.w.out) > c.s.cfg.OutputBuffer+keptBuffer {
			t.Errorf("%q was answered with %d bytes", in, len(c.w.out))
		}
	})
}
