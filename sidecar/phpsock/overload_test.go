package phpsock

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/tenant"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// within is a server whose clients have little time for hello and for finishing a message.
func within(t *testing.T, timeout time.Duration) *house {
	return open(t, func(c *Config, _ *locker.Config) { c.Timeout = timeout })
}

func TestWhoDoesNotSayHelloIsCutOff(t *testing.T) {
	h := within(t, 30*time.Millisecond)
	for _, first := range [][]byte{nil, hello(1)[:5]} {
		r := h.raw()
		r.send(first)
		if _, _, err := r.next(); wantError(t, "no hello", nil, err, wire.Protocol) != nil && !strings.Contains(err.Error(), "hello did not arrive whole") {
			t.Errorf("it is told %v", err)
		}
		r.closed("no hello")
	}
}

// TestWhoNeverFinishesAMessageIsCutOff, be it one byte at a time, and what it asked for before is answered.
func TestWhoNeverFinishesAMessageIsCutOff(t *testing.T) {
	h := within(t, 60*time.Millisecond)
	r := h.greeted()
	frame := wire.AppendRequest(nil, 3, "kv.get", p("key", strings.Repeat("k", 10_000)))
	r.send(wire.AppendRequest(nil, 2, "server.ping", nil), frame[:10])
	if id, _, err := r.next(); id != 2 || err != nil {
		t.Errorf("the answer before: %d, %v", id, err)
	}
	go func() {
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		for i := range frame[10:] {
			if _, err := r.Write(frame[10+i : 11+i]); err != nil {
				return
			}
			<-pace.C
		}
	}()
	if _, _, err := r.next(); wantError(t, "a slow message", nil, err, wire.Protocol) != nil && !strings.Contains(err.Error(), "did not arrive whole within 60ms") {
		t.Errorf("it is told %v", err)
	}
	r.closed("a slow message")
	until(t, "it has gone", func() bool { return h.s.Connections() == 0 })
}

// TestWhoIsSilentBetweenMessagesIsNotCutOff, and one that took its time but finished is served.
func TestWhoIsSilentBetweenMessagesIsNotCutOff(t *testing.T) {
	const timeout = 100 * time.Millisecond
	h := within(t, timeout)
	r := h.greeted()
	slow := wire.AppendRequest(nil, 2, "server.ping", nil)
	r.send(slow[:7])
	until(t, "the first half is read", func() bool { return unsent(r.Conn.(*net.UnixConn)) == 0 })
	r.send(slow[7:])
	if id, _, err := r.next(); id != 2 || err != nil {
		t.Fatalf("the slow one: %d, %v", id, err)
	}
	quiet := time.NewTimer(3 * timeout)
	<-quiet.C
	r.send(wire.AppendRequest(nil, 3, "server.ping", nil))
	if id, _, err := r.next(); id != 3 || err != nil {
		t.Errorf("after a silence: %d, %v", id, err)
	}
}

// TestIdleConnectionsHoldNoBuffers: what one connection does not need now, another one has.
func TestIdleConnectionsHoldNoBuffers(t *testing.T) {
	h := open(t, nil)
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	connOf(t, fds[1])
	c, err := newConn(h.s, connOf(t, fds[0]))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.makeRoom(); err != nil || c.buffers == nil || cap(c.in) < firstBuffer {
		t.Fatalf("it has no room: %v", err)
	}
	c.greeted = true
	if c.pause(); c.buffers != nil {
		t.Error("it is silent and keeps its buffers")
	}
	if err := c.makeRoom(); err != nil {
		t.Fatal(err)
	}
	c.in = append(c.in, 1)
	if c.pause(); c.buffers == nil || c.readBy.IsZero() {
		t.Error("it is in the middle of a message: it has lost what has arrived, or has all time")
	}
}

// TestALargeBufferIsChargedAndGivenBack.
func TestALargeBufferIsChargedAndGivenBack(t *testing.T) {
	const bound = 200 << 10
	h := open(t, func(c *Config, _ *locker.Config) {
		c.Tenant = tenant.New("default", tenant.Limits{Unfinished: bound}, nil)
	})
	quota := &h.s.cfg.Tenant.Unfinished
	r := h.greeted()
	frame := wire.AppendRequest(nil, 2, "kv.set", p("key", "k", "value", make([]byte, 100<<10)))
	r.send(frame[:90<<10])
	until(t, "it is charged", func() bool { return quota.Used() > 60<<10 })
	r.send(frame[90<<10:])
	if id, _, err := r.next(); id != 2 || err != nil {
		t.Fatalf("the whole of it: %d, %v", id, err)
	}
	until(t, "it is charged no more", func() bool { return quota.Used() == 0 })
	r.send(wire.AppendRequest(nil, 3, "kv.set", p("key", "k", "value", make([]byte, bound+10<<10)))[:bound+5<<10])
	if _, _, err := r.next(); wantError(t, "more than all may have", nil, err, wire.Unavailable) != nil && !strings.Contains(err.Error(), "limits.unfinished") {
		t.Errorf("it is told %v", err)
	}
	until(t, "it is charged no more", func() bool { return quota.Used() == 0 && h.s.Connections() == 0 })
}

// TestBusyInWords: whoever reads the message knows why, with and without a holder.
func TestBusyInWords(t *testing.T) {
	s := &Server{cfg: Config{Tenant: tenant.New("shop", tenant.Limits{Waiters: 9}, nil)}}
	held := &store.Hold{Token: "t"}
	for _, c := range []struct {
		o    outcome
		want string
	}{
		{outcome{Result: store.Result{Holder: held}}, "another holds the lock"},
		{outcome{Result: store.Result{Holder: held}, waited: 1500 * time.Millisecond}, "another holds the lock, after 1.5s of waiting"},
		{outcome{Result: store.Result{Holder: held}, waiters: 64, full: true}, "another holds the lock, and 64 wait for it, which is the limit (lock.max_waiters)"},
		{outcome{Result: store.Result{Holder: held}, over: true}, "another holds the lock, and 9 requests of tenant shop wait already, which is the limit (tenants.shop.waiters)"},
		{outcome{waiters: 2}, "the lock is about to be granted to the first of those who wait for it"},
		{outcome{waiters: 64, full: true}, "the lock is about to be granted to the first of those who wait for it, and 64 wait for it, which is the limit (lock.max_waiters)"},
	} {
		e := s.busy(c.o)
		if e.Message != c.want {
			t.Errorf("got  %s\nwant %s", e.Message, c.want)
		}
		if has := detail(e, "holder") != nil; has != (c.o.Holder != nil) {
			t.Errorf("%s: the holder is %v", c.want, detail(e, "holder"))
		}
	}
}

// TestAMaxWaitThatCutsIsLoggedOnce.
func TestAMaxWaitThatCutsIsLoggedOnce(t *testing.T) {
	h := open(t, func(_ *Config, l *locker.Config) { l.MaxWait = 10 * time.Millisecond })
	h.visit().ask("session.open", "id", "abc", "token", "holder")
	for i := range 3 {
		h.visit().fails(wire.Busy, "wait_over", "session.open", "id", "abc", "token", fmt.Sprint("t", i), "wait_ms", 60_000)
	}
	if n := strings.Count(h.log.String(), "wants to wait longer than anybody may"); n != 1 {
		t.Errorf("the log says it %d times: %s", n, h.log)
	}
}

// waitsFor sends kv.waits for a key's next version, with ids from 100 on.
func (r *rawConn) waitsFor(n int, key string) {
	r.t.Helper()
	r.send(wire.AppendRequest(nil, 2, "kv.wait", p("key", key)))
	_, seen, err := r.next()
	if err != nil {
		r.t.Fatal(err)
	}
	var frames []byte
	for i := range n {
		frames = wire.AppendRequest(frames, uint32(100+i), "kv.wait", p("key", key, "version", field(r.t, seen, "version"), "timeout_ms", 60_000))
	}
	r.send(frames)
}

// TestOneChangeIsNotCopiedForAllWhoWaitForIt at once: of each connection one answer is made at a time, and counted before it is.
func TestOneChangeIsNotCopiedForAllWhoWaitForIt(t *testing.T) {
	const n, size = 12, 4 << 20
	h := open(t, func(c *Config, _ *locker.Config) {
		c.MaxFrame = 16 << 20
		c.Tenant = tenant.New("default", tenant.Limits{Unread: 64 << 20}, nil)
	})
	unread, waiters := &h.s.cfg.Tenant.Unread, &h.s.cfg.Tenant.Waiters
	one, other, writer := h.greeted(), h.greeted(), h.visit()
	one.waitsFor(n, "k")
	other.waitsFor(n, "k")
	until(t, "all wait", func() bool { return waiters.Used() == 2*n })
	value := make([]byte, size)
	before := heap()
	writer.ask("kv.set", "key", "k", "value", value)
	until(t, "both have an answer that is not read", func() bool { return unread.Used() == 2*size })
	if grown := heap() - before; grown > 6*size {
		t.Errorf("%d answers of %d KiB take %d KiB before one is read", 2*n, size>>10, grown>>10)
	}
	other.Close()
	answered := make(map[uint32]bool)
	for range n {
		id, o, err := one.next()
		if err != nil {
			t.Fatalf("after %d answers: %v", len(answered), err)
		}
		if got := len(field(t, o, "value").([]byte)); got != size {
			t.Fatalf("an answer has %d bytes", got)
		}
		answered[id] = true
	}
	if len(answered) != n {
		t.Errorf("%d different answers, want %d", len(answered), n)
	}
	until(t, "nothing is counted any more", func() bool { return unread.Used() == 0 && waiters.Used() == 0 })
}

// TestAGrantedSessionIsCountedBeforeItsAnswerIsMade, and who cannot have the answer does not keep the lock.
func TestAGrantedSessionIsCountedBeforeItsAnswerIsMade(t *testing.T) {
	const size = 4 << 20
	h := open(t, func(c *Config, _ *locker.Config) {
		c.MaxFrame = 16 << 20
		c.Tenant = tenant.New("default", tenant.Limits{Unread: size + size/2}, nil)
	})
	holder, r := h.visit(), h.greeted()
	for i, id := range []string{"a", "b"} {
		fence := field(t, holder.ask("session.open", "id", id, "token", "h"), "fence")
		holder.ask("session.commit", "id", id, "token", "h", "fence", fence, "data", make([]byte, size), "ttl_ms", 60_000)
		r.send(wire.AppendRequest(nil, uint32(100+i), "session.open", p("id", id, "token", "w", "wait_ms", 60_000)))
	}
	until(t, "both wait", func() bool { return h.l.Waiting() == 2 })
	holder.ask("session.release", "id", "a", "token", "h")
	until(t, "the first answer is not read", func() bool { return h.s.cfg.Tenant.Unread.Used() == size })
	holder.ask("session.release", "id", "b", "token", "h")
	until(t, "it is cut off", func() bool { return h.s.Connections() == 1 })
	if used := h.s.cfg.Tenant.Unread.Used(); used != 0 {
		t.Errorf("%d bytes are counted that nobody waits for", used)
	}
	if h.l.Held() != 0 || !strings.Contains(h.log.String(), "too many answers wait for clients that do not read them") {
		t.Errorf("%d locks are held; the log: %s", h.l.Held(), h.log)
	}
}

// TestWhatWaitsKeepIsCounted to the unfinished messages, and refused beyond their limit.
func TestWhatWaitsKeepIsCounted(t *testing.T) {
	h := open(t, func(c *Config, _ *locker.Config) {
		c.Tenant = tenant.New("default", tenant.Limits{Unfinished: 350 << 10}, nil)
	})
	quota := &h.s.cfg.Tenant.Unfinished
	name := strings.Repeat("k", 60_000)
	h.visit().ask("lock.acquire", "name", name, "token", "holder")
	r, v := h.greeted(), h.visit()
	r.waitsFor(1, name)
	until(t, "the key is counted", func() bool { return quota.Used() == 2*60_000 })
	r.send(wire.AppendRequest(nil, 3, "lock.acquire", p("name", name, "token", "w", "wait_ms", 60_000)))
	until(t, "the lock's name is counted", func() bool { return quota.Used() == 4*60_000+2 })
	for range 2 {
		v.fails(wire.Unavailable, "unfinished", "lock.acquire", "name", name, "token", "w2", "wait_ms", 60_000)
	}
	v.ask("server.ping")
	if used := h.s.cfg.Tenant.Waiters.Used(); used != 2 {
		t.Errorf("%d wait, want 2", used)
	}
	r.send(wire.AppendRequest(nil, 4, "server.end_request", nil))
	until(t, "nothing is counted any more", func() bool { return quota.Used() == 0 && h.s.cfg.Tenant.Waiters.Used() == 0 })
}

// TestWhatAClientCausesAtWillIsNotAFloodInTheLog.
func TestWhatAClientCausesAtWillIsNotAFloodInTheLog(t *testing.T) {
	const n = 50
	h := open(t, nil)
	holder, v := h.visit(), h.visit()
	holder.ask("session.open", "id", "abc", "token", "holder")
	for i := range n {
		v.fails(wire.Busy, "", "session.open", "id", "abc", "token", "other")
		v.fails(wire.Refused, "", "session.commit", "id", "abc", "token", "other", "fence", 1<<40, "data", "x", "ttl_ms", 60_000)
		v.ask("lock.acquire", "name", "l", "token", fmt.Sprint("t", i))
		v.ask("lock.force_release", "name", "l")
		v.ask("lock.acquire", "name", "bound", "token", fmt.Sprint("t", i), "bound", true)
		v.ask("server.end_request")
	}
	for _, line := range []string{
		"session lock not granted", "session write refused", "lock released by force", "lock released for a client that left it behind",
	} {
		if got := strings.Count(h.log.String(), line); got < 1 || got > 3 { // once in ten seconds
			t.Errorf("%s: %d lines for %d times", line, got, n)
		}
	}
}
