package phpsock

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coatcheck/coatcheck/sidecar/client"
	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/tenant"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

func TestPipelinedRequestsAreAnsweredInOrderAndTogether(t *testing.T) {
	h := open(t, nil)
	r := h.raw()
	batch := hello(1)
	const n = 200
	for i := range n {
		batch = wire.AppendRequest(batch, uint32(i+2), "kv.incr_by", p("key", "n"))
	}
	r.send(batch)
	reads := 0
	buf := make([]byte, 1<<20)
	var all []byte
	for answers := 0; answers < n+1; {
		k, err := r.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		reads++
		all = append(all, buf[:k]...)
		for {
			frame, rest, err := wire.Next(all, 1<<20)
			if err != nil {
				break
			}
			all = rest
			id, result, err := wire.DecodeResponse(frame)
			if err != nil || id != uint32(answers+1) || answers > 0 && result != int64(answers) {
				t.Fatalf("answer %d is to request %d: %v, %v", answers, id, result, err)
			}
			answers++
		}
	}
	if reads > 10 {
		t.Errorf("%d answers came in %d parts", n, reads)
	}
}

func TestAWaitDoesNotHoldUpThoseBehindIt(t *testing.T) {
	h := open(t, nil)
	holder, r := h.visit(), h.greeted()
	fence := field(t, holder.ask("session.open", "id", "abc", "token", "ta"), "fence")
	r.send(wire.AppendRequest(nil, 2, "session.open", p("id", "abc", "token", "tb", "wait_ms", 60_000)),
		wire.AppendRequest(nil, 3, "kv.get", p("key", "k")), wire.AppendRequest(nil, 4, "server.ping", nil))
	for _, want := range []uint32{3, 4} {
		if id, _, err := r.next(); err != nil || id != want {
			t.Fatalf("answer to %d, %v; want to %d", id, err, want)
		}
	}
	until(t, "it waits", func() bool { return h.l.Waiting() == 1 })
	holder.ask("session.commit", "id", "abc", "token", "ta", "fence", fence, "data", "written", "ttl_ms", 60_000, "release", true)
	id, o, err := r.next()
	if err != nil || id != 2 || show(field(t, o, "data")) != "written" || field(t, o, "locked") != true {
		t.Errorf("after the release: %d, %v, %v", id, o, err)
	}
}

func TestPromise4ADeadHoldersSocketFreesItsLocks(t *testing.T) {
	h := open(t, nil)
	dying, v := h.greeted(), h.greeted()
	dying.send(wire.AppendRequest(nil, 2, "session.open", p("id", "abc", "token", "ta")),
		wire.AppendRequest(nil, 3, "lock.acquire", p("name", "bound", "token", "ta", "bound", true)),
		wire.AppendRequest(nil, 4, "lock.acquire", p("name", "free", "token", "ta")))
	for range 3 {
		dying.next()
	}
	v.send(wire.AppendRequest(nil, 2, "session.open", p("id", "abc", "token", "tb", "wait_ms", 60_000)),
		wire.AppendRequest(nil, 3, "lock.acquire", p("name", "bound", "token", "tb", "wait_ms", 60_000)))
	until(t, "both wait", func() bool { return h.l.Waiting() == 2 })
	began := time.Now()
	dying.Close()
	for range 2 {
		if _, _, err := v.next(); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > 2*time.Second { // milliseconds, on a machine that has time
		t.Errorf("it took %v", took)
	}
	other := h.visit()
	other.fails(wire.Busy, "", "lock.acquire", "name", "free", "token", "tb")
	if !strings.Contains(h.log.String(), "lock released for a client that left it behind") {
		t.Error("the log does not tell")
	}
}

func TestADeadWaiterIsDropped(t *testing.T) {
	h := open(t, nil)
	holder, dying := h.visit(), h.greeted()
	holder.ask("session.open", "id", "abc", "token", "ta")
	dying.send(wire.AppendRequest(nil, 2, "session.open", p("id", "abc", "token", "tb", "wait_ms", 60_000)))
	until(t, "it waits", func() bool { return h.l.Waiting() == 1 })
	dying.Close()
	until(t, "it waits no more", func() bool { return h.l.Waiting() == 0 && h.s.Connections() == 1 })
	holder.ask("session.release", "id", "abc", "token", "ta")
	if o := holder.ask("session.open", "id", "abc", "token", "tc"); field(t, o, "locked") != true {
		t.Errorf("the lock went to the dead: %v", o)
	}
}

func TestEndOfTheRequest(t *testing.T) {
	h := open(t, nil)
	holder, r := h.visit(), h.greeted()
	holder.ask("session.open", "id", "held", "token", "ta")
	end := []byte{0, 0, 0, 0, 0x93, 2, 0xb2}
	end = append(append(end, "server.end_request"...), 0xc0)
	binary.BigEndian.PutUint32(end, uint32(len(end)-wire.HeaderSize))

	r.send(wire.AppendRequest(nil, 2, "lock.acquire", p("name", "forgotten", "token", "tb", "bound", true)),
		wire.AppendRequest(nil, 3, "session.open", p("id", "held", "token", "tb", "wait_ms", 60_000)),
		wire.AppendRequest(nil, 4, "kv.wait", p("key", "k", "version", 1, "timeout_ms", 60_000)),
		end,
		wire.AppendRequest(nil, 5, "server.ping", nil))
	for _, want := range []uint32{2, 5} { // the notification is not answered, nor are the waits that it dropped
		if id, _, err := r.next(); err != nil || id != want {
			t.Fatalf("answer to %d, %v; want to %d", id, err, want)
		}
	}
	holder.ask("lock.acquire", "name", "forgotten", "token", "ta")
	until(t, "the wait is dropped", func() bool { return h.l.Waiting() == 0 })
	holder.ask("session.release", "id", "held", "token", "ta")
	holder.ask("session.open", "id", "held", "token", "tc")

	r.send(wire.AppendRequest(nil, 6, "session.open", p("id", "next", "token", "td", "wait_ms", 5)))
	if id, _, err := r.next(); err != nil || id != 6 {
		t.Errorf("the next request on this connection: answer to %d, %v", id, err)
	}
}

func TestANotificationIsNeverAnswered(t *testing.T) {
	h := open(t, nil)
	r := h.greeted()
	notify := func(method string, params wire.Pairs) []byte {
		b := append([]byte{0, 0, 0, 0, 0x93, 2, 0xa0 | byte(len(method))}, method...)
		b = wire.AppendPairs(b, params)
		binary.BigEndian.PutUint32(b, uint32(len(b)-wire.HeaderSize))
		return b
	}
	holder := h.visit()
	holder.ask("session.open", "id", "abc", "token", "ta")
	r.send(notify("kv.set", p("key", "k", "value", "v")), notify("kv.get", nil), notify("no.such", nil), notify("server.status", nil),
		notify("session.open", p("id", "abc", "token", "tb", "wait_ms", 1)), notify("kv.wait", p("key", "k", "version", 0, "timeout_ms", 1)))
	until(t, "the notified wait is over", func() bool { return strings.Contains(h.log.String(), "session lock not granted") })
	r.send(wire.AppendRequest(nil, 9, "kv.get", p("key", "k")))
	if id, got, err := r.next(); err != nil || id != 9 || show(got) != "v" {
		t.Errorf("answer to %d: %v, %v", id, got, err)
	}
}

func TestHelloComesFirst(t *testing.T) {
	h := open(t, nil)
	for what, first := range map[string][]byte{
		"a request":      wire.AppendRequest(nil, 7, "kv.set", p("key", "k", "value", "v")),
		"a notification": {0, 0, 0, 0x16, 0x93, 2, 0xb2, 's', 'e', 'r', 'v', 'e', 'r', '.', 'e', 'n', 'd', '_', 'r', 'e', 'q', 'u', 'e', 's', 't', 0xc0},
	} {
		r := h.raw()
		r.send(first)
		_, _, err := r.next()
		wantError(t, what, nil, err, wire.Protocol)
		r.closed(what + " before hello")
	}
	if h.visit().ask("kv.get", "key", "k") != nil {
		t.Error("a request before hello was served")
	}
	r := h.raw()
	r.send(wire.AppendRequest(nil, 1, "hello", p("version", 99)), wire.AppendRequest(nil, 2, "kv.get", p("key", "k")))
	_, _, err := r.next()
	if e := wantError(t, "another version", nil, err, wire.Protocol); e != nil && !strings.Contains(e.Message, "speaks version 1") {
		t.Errorf("its message is %q", e.Message)
	}
	_, _, err = r.next()
	wantError(t, "a request after a refused hello", nil, err, wire.Protocol)
	r.closed("after it")
	if v := h.visit(); v.Server() != "test" {
		t.Errorf("the server calls itself %q", v.Server())
	}
}

func TestHostileBytesEndTheConnectionAndNothingElse(t *testing.T) {
	h := open(t, nil)
	bystander := h.visit()
	framed := func(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }
	for what, c := range map[string]struct {
		bytes []byte
		code  wire.Code
	}{
		"http":                    {[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), wire.TooLarge}, // its first bytes are a length
		"a frame of nothing":      {framed(nil), wire.Protocol},
		"a frame of text":         {framed([]byte("hello")), wire.Protocol},
		"a response":              {framed([]byte{0x94, 1, 1, 0xc0, 0xc0}), wire.Protocol},
		"a frame above the limit": {[]byte{0, 0x10, 0, 1}, wire.TooLarge},
		"a huge frame":            {[]byte{0xff, 0xff, 0xff, 0xff}, wire.TooLarge},
		"100,000 arrays":          {framed(append(bytes.Repeat([]byte{0x91}, 100_000), 0xc0)), wire.Protocol},
	} {
		r := h.greeted()
		r.send(wire.AppendRequest(nil, 2, "server.ping", nil), c.bytes)
		if id, _, err := r.next(); err != nil || id != 2 {
			t.Errorf("%s: the request before it: answer to %d, %v", what, id, err)
		}
		id, _, err := r.next()
		wantError(t, what, nil, err, c.code)
		if id != 0 {
			t.Errorf("%s: the error belongs to request %d", what, id)
		}
		r.closed(what)
	}
	deep := wire.AppendRequest(nil, 2, "kv.set", nil)
	deep = deep[:len(deep)-1]
	deep = append(append(deep, 0x81, 0xa5), "value"...)
	deep = append(append(deep, bytes.Repeat([]byte{0x91}, 100_000)...), 0xc0)
	binary.BigEndian.PutUint32(deep, uint32(len(deep)-wire.HeaderSize))
	r := h.greeted()
	r.send(deep, wire.AppendRequest(nil, 3, "server.ping", nil))
	_, _, err := r.next()
	wantError(t, "a deep value", nil, err, wire.Protocol)
	if id, _, err := r.next(); err != nil || id != 3 {
		t.Errorf("the request behind a deep value: answer to %d, %v", id, err)
	}
	half := h.greeted()
	half.send([]byte{0, 0, 1, 0, 0x94})
	half.Close()
	if bystander.ask("server.ping") != true {
		t.Error("another connection suffered")
	}
	until(t, "the bad connections are gone", func() bool { return h.s.Connections() == 2 })
}

func TestAFrameOfTheLimitIsServedAndOneAboveIsNot(t *testing.T) {
	h := open(t, nil)
	v := h.visit()
	overhead := len(wire.AppendRequest(nil, 1, "kv.set", p("key", "k", "value", make([]byte, 1<<17)))) - wire.HeaderSize - 1<<17
	most := 1<<20 - overhead
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)[:most]
	v.ask("kv.set", "key", "k", "value", big)
	if got := v.ask("kv.get", "key", "k"); !bytes.Equal(got.([]byte), big) {
		t.Error("the value came back another")
	}
	o := v.ask("session.open", "id", "abc", "token", "t")
	commit := wire.AppendRequest(nil, 1, "session.commit", p("id", "abc", "token", "t", "fence", field(t, o, "fence"), "data", []byte{}, "ttl_ms", 60_000, "release", true))
	data := big[:1<<20-(len(commit)-wire.HeaderSize)-8]
	v.ask("session.commit", "id", "abc", "token", "t", "fence", field(t, o, "fence"), "data", data, "ttl_ms", 60_000, "release", true)
	if got := v.ask("session.open", "id", "abc", "token", "u"); !bytes.Equal(field(t, got, "data").([]byte), data) {
		t.Error("a session that fits into its commit does not fit into its open")
	}
}

// heap returns how many bytes live on the heap, this test's own included.
func heap() int64 {
	var m runtime.MemStats
	for range 3 { // a sync.Pool keeps what it has over two of them
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestAnIdleConnectionKeepsNothingOfItsLastRequest, which nobody counts any more.
func TestAnIdleConnectionKeepsNothingOfItsLastRequest(t *testing.T) {
	const n, size = 12, 4 << 20
	keys := make([]string, wire.MaxKeys)
	for i := range keys {
		keys[i] = strings.Repeat("k", 200)
	}
	value := make([]byte, size)
	for what, frames := range map[string][]byte{
		"a large value":        wire.AppendRequest(nil, 2, "kv.set", p("key", "k", "value", value)),
		"a value to compare":   wire.AppendRequest(nil, 2, "kv.del_if_eq", p("key", "k", "value", value)),
		"a condition":          wire.AppendRequest(nil, 2, "kv.set", p("key", "k", "value", "v", "ifeq", value)),
		"a request it refuses": wire.AppendRequest(nil, 2, "kv.set", p("key", "k", "value", value, "nx", true, "xx", true)),
		"many keys":            wire.AppendRequest(nil, 2, "kv.exists", p("keys", keys)),
		"few keys after many":  append(wire.AppendRequest(nil, 3, "kv.exists", p("keys", keys)), wire.AppendRequest(nil, 2, "kv.exists", p("keys", keys[:1]))...),
		"a value and more":     append(wire.AppendRequest(nil, 3, "kv.set", p("key", "k", "value", value)), wire.AppendRequest(nil, 2, "server.ping", nil)...),
	} {
		t.Run(what, func(t *testing.T) {
			h := open(t, func(c *Config, _ *locker.Config) { c.MaxFrame = 16 << 20 })
			r := h.greeted() // what the store keeps is there before
			ask := func(r *rawConn) {
				r.send(frames)
				for id := uint32(0); id != 2; {
					var err error
					if id, _, err = r.next(); id == 0 {
						t.Fatal(err)
					}
				}
			}
			ask(r)
			before := heap()
			for range n {
				ask(h.greeted())
			}
			if grown := heap() - before; grown > 6<<20 {
				t.Errorf("%d idle connections hold %d KiB", n, grown>>10)
			}
		})
	}
}

func TestMemoryOfAConnectionGrowsWithWhatHasArrived(t *testing.T) {
	h := open(t, func(c *Config, _ *locker.Config) { c.MaxFrame = 64 << 20 })
	before := heap()
	var held []*rawConn
	for range 20 { // each announces 64 MiB and sends next to nothing
		r := h.greeted()
		r.send([]byte{0x03, 0xff, 0xff, 0xff}, make([]byte, 10_000))
		held = append(held, r)
	}
	for _, r := range held { // the bytes have arrived when the daemon has read them all: nothing is left in the socket
		until(t, "the daemon read it", func() bool { return unsent(r.Conn.(*net.UnixConn)) == 0 })
	}
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("20 connections that announced 64 MiB each took %d bytes", grown)
	}
}

// unsent returns how many bytes of a socket the peer has not read yet.
func unsent(nc *net.UnixConn) (n int) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return -1
	}
	raw.Control(func(fd uintptr) { n, err = ioctlOutq(int(fd)) })
	if err != nil {
		return -1
	}
	return n
}

func TestASlowReaderIsCutOff(t *testing.T) {
	h := open(t, nil).another(func(s *Server) { s.patience = 50 * time.Millisecond })
	h.s.Ready()
	v := h.visit()
	v.ask("kv.set", "key", "k", "value", make([]byte, 900_000))
	r := h.greeted()
	for i := range 20 {
		r.send(wire.AppendRequest(nil, uint32(i+2), "kv.get", p("key", "k")))
	}
	until(t, "the slow reader is gone", func() bool { return h.s.Connections() == 1 })
	if v.ask("server.ping") != true {
		t.Error("another connection suffered")
	}
}

func TestTooManyConnectionsAreTurnedAway(t *testing.T) {
	h := open(t, func(c *Config, _ *locker.Config) { c.Connections = tenant.NewQuota(2) })
	a, b := h.visit(), h.visit()
	r := h.raw()
	_, _, err := r.next()
	if e := wantError(t, "the third connection", nil, err, wire.Unavailable); e != nil && !strings.Contains(e.Message, "limits.connections") {
		t.Errorf("its message is %q", e.Message)
	}
	r.closed("the third connection")
	b.Close()
	until(t, "there is room", func() bool { return h.s.Connections() == 1 })
	h.visit().ask("server.ping")
	a.ask("server.ping")
}

func TestTooManyWaitsOfOneConnection(t *testing.T) {
	h := open(t, func(_ *Config, l *locker.Config) { l.MaxWaiters = 1000 })
	r := h.greeted()
	for i := range maxWaits + 1 {
		r.send(wire.AppendRequest(nil, uint32(i+2), "kv.wait", p("key", "k", "version", 1, "timeout_ms", 60_000)))
	}
	id, _, err := r.next()
	wantError(t, "one too many", nil, err, wire.Unavailable)
	if id != maxWaits+2 {
		t.Errorf("the one that was refused is %d", id)
	}
}

func TestDraining(t *testing.T) {
	h := open(t, nil)
	holder, waiting, idle := h.visit(), h.greeted(), h.visit()
	fence := field(t, holder.ask("session.open", "id", "abc", "token", "ta"), "fence")
	holder.ask("kv.set", "key", "lock", "value", "token", "nx", true, "ttl_ms", 60_000)
	waiting.send(wire.AppendRequest(nil, 2, "session.open", p("id", "abc", "token", "tb", "wait_ms", 60_000)))
	until(t, "it waits", func() bool { return h.l.Waiting() == 1 })

	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	drained := make(chan struct{})
	go func() {
		h.s.Drain(ctx)
		close(drained)
	}()
	_, _, err := waiting.next()
	if e := wantError(t, "the waiter", nil, err, wire.Unavailable); e != nil && !strings.Contains(e.Message, "shutting down") {
		t.Errorf("its message is %q", e.Message)
	}
	if _, err := os.Lstat(h.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket's file: %v", err)
	}
	if _, err := client.Dial(t.Context(), h.path, "late"); err == nil {
		t.Error("a new connection was accepted")
	}
	idle.fails(wire.Unavailable, "", "session.open", "id", "new", "token", "tc")
	idle.fails(wire.Unavailable, "", "lock.acquire", "name", "l", "token", "tc")
	idle.fails(wire.Unavailable, "", "kv.get", "key", "k")
	idle.ask("server.ping")
	select {
	case <-drained:
		t.Error("it was drained while a lock was held")
	default:
	}
	if holder.ask("kv.expire_if_eq", "key", "lock", "value", "token", "ttl_ms", 60_000) != true ||
		holder.ask("kv.del_if_eq", "key", "lock", "value", "token") != true {
		t.Error("a lock that is a value is neither renewed nor released")
	}
	c := holder.ask("session.commit", "id", "abc", "token", "ta", "fence", fence, "data", "saved", "ttl_ms", 60_000, "release", true)
	if field(t, c, "stored") != true || field(t, c, "released") != true {
		t.Errorf("the holder's commit: %v", c)
	}
	select {
	case <-drained:
	case <-time.After(limit):
		t.Error("it does not end although nobody holds a lock")
	}
	h.s.Close()
	if _, err := holder.Call(t.Context(), "server.ping", nil); err == nil {
		t.Error("a connection outlived Close")
	}
}

func TestCloseLeavesHeldLocksToTheirLeases(t *testing.T) {
	h := open(t, nil)
	v := h.visit()
	v.ask("lock.acquire", "name", "bound", "token", "ta", "bound", true)
	h.s.Close()
	h.s.Close()
	again := h.another(nil)
	again.s.Ready()
	again.visit().fails(wire.Busy, "", "lock.acquire", "name", "bound", "token", "tb")
}

func TestAConnectionAcceptedWhileClosingIsClosed(t *testing.T) {
	h := open(t, nil)
	h.s.Close()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := connOf(t, fds[0]), connOf(t, fds[1])
	h.s.accept(theirs)
	mine.SetDeadline(time.Now().Add(limit))
	if _, err := mine.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it is served: %v", err)
	}
	if n := h.s.Connections(); n != 0 {
		t.Errorf("%d connections after Close", n)
	}
}

// connOf makes a connection of a descriptor.
func connOf(t *testing.T, fd int) *net.UnixConn {
	t.Helper()
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	nc, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc.(*net.UnixConn)
}

func TestBeforeItIsReady(t *testing.T) {
	h := open(t, nil).another(nil)
	v := h.visit()
	v.ask("server.ping")
	e := v.fails(wire.Unavailable, "", "session.open", "id", "abc", "token", "t")
	if e != nil && !strings.Contains(e.Message, "starting") {
		t.Errorf("its message is %q", e.Message)
	}
	h.s.Ready()
	v.ask("session.open", "id", "abc", "token", "t")
}

func TestSocketFile(t *testing.T) {
	dir := t.TempDir()
	listenAt := func(name string, mode fs.FileMode, group string) (net.Listener, error) {
		return ListenUnix(filepath.Join(dir, name), File{Mode: mode, Group: group})
	}
	for _, mode := range []fs.FileMode{0o600, 0o660, 0o666} {
		gid := os.Getgid()
		l, err := listenAt("mode", mode, fmt.Sprint(gid))
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(dir, "mode"))
		if err != nil || info.Mode().Perm() != mode || int(info.Sys().(*syscall.Stat_t).Gid) != gid {
			t.Errorf("mode %o of group %d became %v, %v", mode, gid, info.Mode(), err)
		}
		l.Close() // and leaves its file behind, as a daemon that was killed
	}
	if os.Getuid() == 0 { // only root may give files to any group
		l, err := listenAt("group", 0o660, "12345")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if info, err := os.Stat(filepath.Join(dir, "group")); err != nil || info.Sys().(*syscall.Stat_t).Gid != 12345 {
			t.Errorf("the socket was not given to its group: %v", err)
		}
	}
	if _, err := listenAt("nogroup", 0o660, "no-such-group-here"); err == nil || !strings.Contains(err.Error(), "no-such-group-here") {
		t.Errorf("an unknown group: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "nogroup*")); err != nil || len(left) > 0 {
		t.Errorf("a failed start left %v behind", left)
	}

	// What has taken the socket's place while it was made is left as it is.
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.new")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{link, target} {
		if err := publish(other, filepath.Join(dir, "link"), File{Mode: 0o666}); !errors.Is(err, errNotSocket) {
			t.Errorf("%s is published: %v", other, err)
		}
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file that a link leads to became %v, %v", info.Mode(), err)
	}

	live, err := listenAt("live", 0o600, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listenAt("live", 0o600, ""); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a socket in use: %v", err)
	}
	if nc, err := net.Dial("unix", filepath.Join(dir, "live")); err != nil {
		t.Errorf("the one in use suffered: %v", err)
	} else {
		nc.Close()
	}
	live.Close()
	stale, err := listenAt("live", 0o600, "")
	if err != nil {
		t.Errorf("a stale socket: %v", err)
	} else {
		stale.Close()
	}

	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenAt("file", 0o600, ""); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("a file that is no socket: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(b) != "precious" {
		t.Errorf("it became %q, %v", b, err)
	}
	if _, err := listenAt("no/such/dir", 0o600, ""); err == nil || !strings.Contains(err.Error(), "no/such/dir") {
		t.Errorf("a directory that is missing: %v", err)
	}
}

func TestTheLogHasNoCredentials(t *testing.T) {
	h := open(t, func(_ *Config, l *locker.Config) { l.MaxWaiters = 1 })
	const id, token, data = "abcdefSESSIONIDINFULL", "012345TOKENINFULL", "DATAINFULL"
	a, b := h.visit(), h.visit()
	fence := field(t, a.ask("session.open", "id", id, "token", token, "script", "/a.php"), "fence")
	b.fails(wire.Busy, "", "session.open", "id", id, "token", "999999"+token, "wait_ms", 1, "script", "/b.php")
	b.ask("session.destroy", "id", id)
	a.fails(wire.Refused, "destroyed", "session.commit", "id", id, "token", token, "fence", fence, "data", data, "ttl_ms", 60_000)
	a.ask("lock.acquire", "name", "name", "token", token, "bound", true)
	b.ask("session.force_release", "id", id)
	b.fails(wire.Protocol, "", "session.open", "id", id, "token", token, "bogus", data)
	a.Close()
	until(t, "its locks are released", func() bool { return strings.Contains(h.log.String(), "left it behind") })
	r := h.greeted()
	r.send(wire.AppendRequest(nil, 2, "kv.set", p("key", "k", "value", data)), []byte{0, 0, 0, byte(len(token))}, []byte(token))
	r.next()
	r.next()
	r.closed("garbage")
	log := h.log.String()
	for _, secret := range []string{"SESSIONID", "TOKENINFULL", "DATAINFULL"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %s:\n%s", secret, log)
		}
	}
	for _, says := range []string{"session lock not granted", "holder_script=/a.php", "session write refused", "why=destroyed", "lock released by force", "abcdef…"} {
		if !strings.Contains(log, says) {
			t.Errorf("the log does not say %q:\n%s", says, log)
		}
	}
}

func TestTheTenantIsTheSockets(t *testing.T) {
	h := open(t, nil)
	other := h.another(func(s *Server) { s.cfg.Tenant = tenant.New("other", tenant.Limits{}, nil) })
	other.s.Ready()
	a, b := h.visit(), other.visit()
	a.ask("kv.set", "key", "k", "value", "mine")
	a.ask("session.open", "id", "abc", "token", "t")
	if b.ask("kv.get", "key", "k") != nil {
		t.Error("a value of another tenant")
	}
	if o := b.ask("session.open", "id", "abc", "token", "u"); field(t, o, "locked") != true {
		t.Error("a lock of another tenant")
	}
	if list := b.ask("server.locks").([]any); len(list) != 1 {
		t.Errorf("%d locks are listed, want the tenant's own", len(list))
	}
}

// BenchmarkSessionCycle is what a locked PHP request costs here: open, and commit with release, of 4 KiB.
func BenchmarkSessionCycle(b *testing.B) {
	h := open(b, nil)
	c, err := client.Dial(context.Background(), h.path, "bench")
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	data := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		o, err := c.Call(context.Background(), "session.open", p("id", "abc", "token", "0123456789abcdef0123456789abcdef", "lease_ms", 30_000, "wait_ms", 30_000))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Call(context.Background(), "session.commit", p("id", "abc", "token", "0123456789abcdef0123456789abcdef",
			"fence", o.(map[string]any)["fence"], "data", data, "ttl_ms", 1_440_000, "release", true)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRaw counts the daemon's part alone: the client sends ready-made frames and reads answers into one buffer.
func BenchmarkRaw(b *testing.B) {
	h := open(b, nil)
	for name, frames := range map[string][][]byte{
		"get": {wire.AppendRequest(nil, 1, "kv.get", p("key", "k"))},
		"open and release": {
			wire.AppendRequest(nil, 1, "session.open", p("id", "abc", "token", "0123456789abcdef0123456789abcdef", "lease_ms", 30_000)),
			wire.AppendRequest(nil, 2, "session.release", p("id", "abc", "token", "0123456789abcdef0123456789abcdef")),
		},
	} {
		b.Run(name, func(b *testing.B) {
			r := h.greeted()
			r.SetDeadline(time.Time{})
			buf := make([]byte, 64<<10)
			b.ReportAllocs()
			for b.Loop() {
				for _, f := range frames {
					if _, err := r.Write(f); err != nil {
						b.Fatal(err)
					}
					if _, err := r.Read(buf); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// ioctlOutq returns the bytes of a socket that the peer has not read (SIOCOUTQ).
func ioctlOutq(fd int) (int, error) { return unix.IoctlGetInt(fd, unix.TIOCOUTQ) }
