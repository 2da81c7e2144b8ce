package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// troubles are the ways in which a daemon can fail the start of a session. Each has a warning of its own.
var troubles = []struct {
	name   string
	absent bool
	bring  func(t *testing.T, h *house)
	end    func(t *testing.T, h *house)
	says   string // in the warning, and in no other
}{
	{
		name: "the daemon was never started", absent: true,
		bring: func(*testing.T, *house) {},
		end:   func(_ *testing.T, h *house) { h.startDaemon() },
		says:  "there is no such socket",
	},
	{
		name:  "the daemon was killed",
		bring: func(_ *testing.T, h *house) { h.daemon.kill() },
		end:   func(_ *testing.T, h *house) { h.startDaemon() },
		says:  "connection refused",
	},
	{
		name: "the socket may not be used",
		bring: func(t *testing.T, h *house) {
			if err := os.Chmod(h.socket, 0); err != nil {
				t.Fatal(err)
			}
		},
		end: func(t *testing.T, h *house) {
			if err := os.Chmod(h.socket, 0o660); err != nil {
				t.Fatal(err)
			}
		},
		says: "permission denied",
	},
	{
		name:  "the daemon hangs",
		bring: func(_ *testing.T, h *house) { h.pause() },
		end:   func(_ *testing.T, h *house) { h.resume() },
		says:  "no answer within 500 ms",
	},
	{
		name: "something else listens on the socket", absent: true,
		bring: listenWithNonsense,
		end: func(_ *testing.T, h *house) {
			os.Remove(h.socket)
			h.startDaemon()
		},
		says: "is this the socket of a coatcheck daemon",
	},
}

// listenWithNonsense answers like a server of another protocol, until the test is over.
func listenWithNonsense(t *testing.T, h *house) {
	t.Helper()
	l, err := net.Listen("unix", h.socket)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	t.Cleanup(func() { l.Close() })
	if err := os.Chmod(h.socket, 0o666); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 1024))
			c.Write([]byte("-ERR unknown command\r\n"))
			c.Close()
		}
	}()
}

func TestEachTroubleWithTheDaemonHasItsOwnWarning(t *testing.T) {
	t.Parallel()
	for _, trouble := range troubles {
		t.Run(trouble.name, func(t *testing.T) {
			t.Parallel()
			h := open(t, plan{workers: 1, absent: trouble.absent})
			v := h.visitor()
			if !trouble.absent && trouble.name != "the socket may not be used" {
				v.get("count.php").mustBeOK(t)
			}
			trouble.bring(t, h)
			a := v.get("start.php?ini[coatcheck.timeout_ms]=300&ini[coatcheck.lock_wait]=0.2")
			for _, other := range troubles {
				said := strings.Contains(a.warning(), other.says)
				check(t, said == (other.says == trouble.says), "the warning of %q: %s", trouble.name, a)
			}
			a.mustWarn(t, h.socket, "session "+short(v.id)+" is not read")
			check(t, a.fact("started") == false, "session_start() is not false: %s", a)
			check(t, a.took < 5*time.Second, "the answer took %s", a.took)

			trouble.end(t, h)
			b := v.get("count.php").mustBeOK(t)
			check(t, b.fact("started") == true && b.number("pid") == a.number("pid"), "the worker did not recover: %s", b)
			h.awaitNoLocks()
		})
	}
}

func TestAHungDaemonThatGoesOnHasLostNothing(t *testing.T) {
	t.Parallel()
	h := open(t, plan{workers: 1})
	v := h.visitor()
	v.get("count.php").mustBeOK(t)
	h.pause()
	a := v.get("count.php?ini[coatcheck.timeout_ms]=200&ini[coatcheck.lock_wait]=0")
	check(t, a.fact("started") == false, "a session was started: %s", a)
	h.resume()
	check(t, v.get("count.php").mustBeOK(t).number("n") == 2, "the failed start left %s", v.stored(t, ""))
	h.awaitNoLocks()
}

func TestADaemonThatHangsAtTheWriteIsWarnedOf(t *testing.T) {
	t.Parallel()
	h := open(t, plan{workers: 1})
	v, g := h.visitor(), h.gate()
	a := v.begin("count.php?ini[coatcheck.timeout_ms]=300&until=" + g.path)
	h.awaitHolder(v)
	h.pause()
	g.open()
	a.end(t).mustWarn(t, "no answer within 300 ms", "unknown")
	h.resume()
	check(t, v.get("count.php").mustBeOK(t).number("n") == 2, "the write, which the daemon read when it went on, is lost")
	h.awaitNoLocks()
}

func TestARestartBetweenTwoRequestsOfOneWorkerIsNotNoticed(t *testing.T) {
	t.Parallel()
	h := open(t, plan{workers: 1})
	v := h.visitor()
	first := v.get("count.php").mustBeOK(t)
	h.daemon.kill()
	h.startDaemon()
	second := v.get("count.php").mustBeOK(t)
	check(t, second.fact("started") == true && second.number("pid") == first.number("pid"), "the second request: %s", second)
	h.awaitNoLocks()
}

func TestADaemonKilledInTheMiddleOfARequestIsWarnedOfAtTheWrite(t *testing.T) {
	t.Parallel()
	h := open(t, plan{workers: 1})
	v, g := h.visitor(), h.gate()
	a := v.begin("count.php?until=" + g.path)
	h.awaitHolder(v)
	h.daemon.kill()
	g.open()
	a.end(t).mustWarn(t, "is not written", "connection refused")

	h.startDaemon()
	b := v.get("count.php").mustBeOK(t)
	check(t, b.number("n") == 1, "the write was not refused after all: %s", b)
	h.awaitNoLocks()
}

func TestADaemonKilledWhileARequestWaitsIsWarnedOf(t *testing.T) {
	t.Parallel()
	h := open(t, plan{workers: 2})
	v, g := h.visitor(), h.gate()
	holder := v.begin("count.php?until=" + g.path)
	h.awaitHolder(v)
	waiter := v.begin("start.php")
	h.awaitWaiters(1)
	h.daemon.kill()
	a := waiter.end(t)
	check(t, a.fact("started") == false, "the waiter got a session of a dead daemon: %s", a)
	a.mustWarn(t, "is not read")
	g.open()
	holder.end(t).mustWarn(t, "is not written")
}

// The new daemon knows nothing of the old one's grants: the write must not pass for one that is known to be safe.
func TestAWriteWhoseDaemonWasReplacedMeanwhileOverwritesNothing(t *testing.T) {
	t.Parallel()
	h := open(t, plan{workers: 2})
	v, g := h.visitor(), h.gate()
	slow := v.begin("count.php?until=" + g.path)
	h.awaitHolder(v)
	h.daemon.kill()
	h.startDaemon()
	for n := range 3 {
		check(t, v.get("count.php").mustBeOK(t).number("n") == n+1, "the new daemon does not count")
	}
	g.open()
	slow.end(t).mustWarn(t, "is not written", "refused")
	check(t, v.stored(t, "") == `{"n":3}`, "the old daemon's grant overwrote the session: %s", v.stored(t, ""))
	h.awaitNoLocks()
}

func TestSIGTERMDrains(t *testing.T) {
	t.Parallel()
	h := open(t, plan{workers: 3, daemon: []string{"COATCHECK_DRAIN_TIMEOUT=20s"}})
	v, g := h.visitor(), h.gate()
	holder := v.begin("count.php?until=" + g.path)
	h.awaitHolder(v)
	waiter := v.begin("start.php")
	h.awaitWaiters(1)

	h.daemon.signal(syscall.SIGTERM)
	a := waiter.end(t).mustWarn(t, "shutting down")
	check(t, a.fact("started") == false, "the waiter's start is not false: %s", a)
	late := v.get("start.php")
	check(t, late.fact("started") == false && late.warning() != "", "a start while the daemon drains: %s", late)
	status, ready := h.page("/readyz")
	check(t, status == http.StatusServiceUnavailable && strings.Contains(ready, "shutting down"), "/readyz answers %d: %s", status, ready)
	_, held := h.holder(v)
	check(t, held && !holder.isOver(), "the holder does not hold its lock any more: %v", h.locks())
	g.open()
	holder.end(t).mustBeOK(t) // without a warning: the write was acknowledged
	check(t, h.daemon.wait(t, 5*time.Second) == 0, "the daemon's exit status is not 0")
}

func TestAHolderThatAsksForMoreDuringADrainKeepsItsLock(t *testing.T) {
	t.Parallel()
	h := open(t, plan{daemon: []string{"COATCHECK_DRAIN_TIMEOUT=20s"}})
	v, g := h.visitor(), h.gate()
	holder := v.begin("call_in_session.php?until=" + g.path)
	h.awaitHolder(v)
	h.daemon.signal(syscall.SIGTERM)
	eventually(t, 5*time.Second, "the daemon drains", func() (bool, string) {
		status, body := h.page("/readyz")
		return status == http.StatusServiceUnavailable, body
	})
	g.open()
	a := holder.end(t).mustBeOK(t) // without a warning: the write was acknowledged
	check(t, a.text("told") == `Coatcheck\UnavailableException`, "what it asked for during the drain: %s", a)
	check(t, h.daemon.wait(t, 5*time.Second) == 0, "the daemon's exit status is not 0")
}

func TestADrainEndsWhenItsTimeIsUp(t *testing.T) {
	t.Parallel()
	h := open(t, plan{daemon: []string{"COATCHECK_DRAIN_TIMEOUT=300ms"}})
	v, g := h.visitor(), h.gate()
	holder := v.begin("count.php?until=" + g.path)
	h.awaitHolder(v)
	h.daemon.signal(syscall.SIGTERM)
	check(t, h.daemon.wait(t, 10*time.Second) == 0, "the daemon's exit status is not 0")
	g.open()
	holder.end(t).mustWarn(t, "is not written")
}

func TestGarbageOnTheSocketHurtsNobody(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	v := h.visitor()
	v.get("count.php").mustBeOK(t)
	hello := wire.AppendRequest(nil, 1, "hello", wire.Pairs{{Key: "version", Value: wire.Version}})
	before := h.memory()
	for name, bytes := range map[string][]byte{
		"text":                     []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"zeros":                    make([]byte, 4096),
		"a length above the limit": {0xff, 0xff, 0xff, 0xff, 0x94},
		"a length within the limit and nothing behind it": append(hello[:len(hello):len(hello)], 0x00, 0xff, 0xff, 0xff),
		"a string that claims 4 GiB":                      {0, 0, 0, 5, 0xdb, 0xff, 0xff, 0xff, 0xff},
		"deep nesting":                                    append([]byte{0, 1, 0, 0}, strings.Repeat("\x91", 1<<16)...),
		"no hello":                                        wire.AppendRequest(nil, 1, "server.ping", nil),
		"an unknown method":                               wire.AppendRequest(hello[:len(hello):len(hello)], 2, "no.such", nil),
	} {
		for range 20 {
			c, err := net.Dial("unix", h.socket)
			check(t, err == nil, "%s: the daemon takes no connection: %v", name, err)
			c.SetDeadline(time.Now().Add(5 * time.Second))
			c.Write(bytes)
			defer c.Close() // all stay open, with whatever the daemon keeps for them
		}
		a := v.get("count.php").mustBeOK(t)
		check(t, a.took < time.Second, "%s: a visitor's request took %s", name, a.took)
	}
	after := h.memory()
	t.Logf("the daemon's memory: %d KiB before, %d KiB after", before, after)
	check(t, after-before < 64<<10, "the daemon's memory grew from %d to %d KiB", before, after)
	check(t, h.metric("coatcheck_connections_malformed_total") >= 20, "malformed connections are not counted")
}

// memory returns the most memory that the daemon ever had in use, in KiB.
func (h *house) memory() (kib int) {
	h.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.daemon.pid()))
	check(h.t, err == nil, "%v", err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	_, err = fmt.Sscanf(rest, "%d kB", &kib)
	check(h.t, err == nil, "%v in %s", err, status)
	return kib
}
