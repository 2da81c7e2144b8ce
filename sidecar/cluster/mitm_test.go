package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// between is somebody on the way to a host's peer port.
type between struct {
	ln     net.Listener
	target atomic.Pointer[string]
	frozen atomic.Bool // it takes bytes and passes none on
	flip   atomic.Bool // it changes the next bytes that it passes on

	mu       sync.Mutex
	recorded []byte     // what it passed on to the target
	conns    []net.Conn // guarded by mu
}

func stepBetween(t *testing.T) *between {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &between{ln: ln}
	t.Cleanup(func() {
		ln.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, nc := range b.conns {
			nc.Close()
		}
	})
	return b
}

// stand begins to relay to a host.
func (b *between) stand(target string) {
	b.target.Store(&target)
	go func() {
		for {
			nc, err := b.ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", *b.target.Load())
			if err != nil {
				nc.Close()
				continue
			}
			b.mu.Lock()
			b.conns = append(b.conns, nc, out)
			b.mu.Unlock()
			go b.relay(out, nc, true)
			go b.relay(nc, out, false)
		}
	}()
}

func (b *between) relay(to, from net.Conn, record bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if b.frozen.Load() {
			continue
		}
		part := buf[:n]
		if n > 0 && b.flip.CompareAndSwap(true, false) {
			part[n-1] ^= 1
		}
		if record {
			b.mu.Lock()
			b.recorded = append(b.recorded, part...)
			b.mu.Unlock()
		}
		if _, werr := to.Write(part); err != nil || werr != nil {
			return
		}
	}
}

// behind starts two hosts, of which the second is reached through b.
func behind(t *testing.T, b *between, change ...func(*Config)) (from, to *Cluster) {
	t.Helper()
	cfg2, _ := testConfig(2)
	cfg2.PeerAdvertise = b.ln.Addr().String()
	cfg1, _ := testConfig(1)
	for _, f := range change {
		f(&cfg1)
		f(&cfg2)
	}
	to = begin(t, cfg2)
	b.stand(to.server.ln.Addr().String())
	cfg1.Join = []string{to.set.self.gossip}
	from = begin(t, cfg1)
	meshed(t, from, to)
	return from, to
}

func TestRecordedBytesAreRefused(t *testing.T) {
	b := stepBetween(t)
	from, to := behind(t, b)
	var served atomic.Int32
	to.Handle(serving(func(context.Context, string, []byte) ([]byte, error) {
		served.Add(1)
		return nil, nil
	}))
	if _, err := from.Call(t.Context(), to.Self().ID, false, []byte("once only")); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	recorded := bytes.Clone(b.recorded)
	b.mu.Unlock()
	nc, err := net.Dial("tcp", *b.target.Load())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	if _, err := nc.Write(recorded); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(nc); err != nil && isTimeout(err) {
		t.Error("the connection is kept open")
	}
	if n := served.Load(); n != 1 {
		t.Errorf("the question was served %d times", n)
	}
	if n := len(to.server.conns()); n != 1 {
		t.Errorf("there are %d connections", n)
	}
	if _, err := from.Call(t.Context(), to.Self().ID, false, nil); err != nil {
		t.Errorf("the true connection: %v", err)
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func TestChangedBytesEndTheConnection(t *testing.T) {
	b := stepBetween(t)
	from, to := behind(t, b)
	to.Handle(serving(echo))
	for range 10 {
		a := from.askerTo(to)
		b.flip.Store(true)
		got, err := from.Call(t.Context(), to.Self().ID, false, []byte("whole"))
		if err == nil && string(got) != "whole" {
			t.Fatalf("got %q", got)
		}
		until(t, "the connection ends", a.isEnded, func() string { return "it goes on" })
		until(t, "there is another", func() bool { return from.Connected(to.Self().ID) }, func() string { return "none" })
	}
}

func TestConnectionsThatAreLedElsewhereAreRefused(t *testing.T) {
	third, _ := testConfig(3)
	other := begin(t, third)
	for what, c := range map[string]struct {
		target func(from *Cluster) string
		reason string
	}{
		"back to the asker":              {func(from *Cluster) string { return from.server.ln.Addr().String() }, "speaking to itself"},
		"to another host of the cluster": {func(*Cluster) string { return other.server.ln.Addr().String() }, "answers there"},
	} {
		t.Run(what, func(t *testing.T) {
			b := stepBetween(t)
			from, to := behind(t, b)
			for _, c := range []*Cluster{from, other} {
				c.Handle(serving(func(context.Context, string, []byte) ([]byte, error) {
					t.Error("a question for another is served")
					return nil, nil
				}))
			}
			elsewhere := c.target(from)
			b.target.Store(&elsewhere)
			from.askerTo(to).end(errors.New("cut by the test"))
			var err error
			until(t, "the asker finds out", func() bool {
				_, err = from.Call(t.Context(), to.Self().ID, false, nil)
				return err != nil && strings.Contains(err.Error(), c.reason)
			}, func() string { return err.Error() })
			if !errors.Is(err, ErrNotSent) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestASilentConnectionIsGivenUp(t *testing.T) {
	b := stepBetween(t)
	from, to := behind(t, b, func(c *Config) { c.Silence, c.DialTimeout = 100*time.Millisecond, 100*time.Millisecond })
	to.Handle(serving(echo))
	b.frozen.Store(true)
	if _, err := from.Call(t.Context(), to.Self().ID, false, nil); !errors.Is(err, ErrNoAnswer) || !errors.Is(err, errSilent) {
		t.Errorf("got %v", err)
	}
	until(t, "the other side gives it up as well", func() bool { return len(to.server.conns()) == 0 }, func() string { return "a connection" })
	b.frozen.Store(false)
	until(t, "they speak again", func() bool { _, err := from.Call(t.Context(), to.Self().ID, false, nil); return err == nil }, func() string { return "they do not" })
}
