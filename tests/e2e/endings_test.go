package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// filesHandler is the query that makes a script use PHP's own handler.
func (h *house) filesHandler() string {
	return "ini[session.save_handler]=files&ini[session.save_path]=" + filepath.Join(h.dir, "files")
}

// endings are the ways in which a script ends before its last line; each says whether PHP still writes the session.
var endings = []struct {
	name    string
	by      string // what end.php is told; empty: the name
	written bool
	signal  syscall.Signal // sent to the worker
	pool    []string
}{
	{name: "exit", written: true},
	{name: "die", written: true},
	{name: "an uncaught exception", written: true},
	{name: "a fatal error", written: true},
	{name: "running out of memory", written: true},
	{name: "max_execution_time", written: true},
	{name: "kill -9", by: "being killed", signal: syscall.SIGKILL},
	{name: "a segmentation fault", by: "being killed", signal: syscall.SIGSEGV},
	{name: "request_terminate_timeout", by: "being killed", pool: []string{"request_terminate_timeout=1s"}},
}

func TestEveryEndingLeavesWhatPHPsOwnHandlerLeaves(t *testing.T) {
	t.Parallel()
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			h := open(t, plan{pool: e.pool})
			by := cmp.Or(e.by, e.name)
			files := endBy(t, h, h.filesHandler(), by, e.signal)
			ours := endBy(t, h, "", by, e.signal)
			h.awaitNoLocks()
			t.Logf("stored: files %s, coatcheck %s; the next start took %s and %s",
				files.stored, ours.stored, files.next, ours.next)
			check(t, ours.stored == files.stored, "files stored %s, coatcheck %s", files.stored, ours.stored)
			check(t, (ours.stored == `{"n":2}`) == e.written, "stored after this ending: %s", ours.stored)
			check(t, ours.next < time.Second, "the next start took %s", ours.next)
		})
	}
}

// left is what a script left behind.
type left struct {
	stored string
	next   time.Duration // how long the next request on the session took
}

// endBy counts once, lets a second request end in the given way, and looks at what is left.
func endBy(t *testing.T, h *house, handler, by string, signal syscall.Signal) left {
	t.Helper()
	v := h.visitor()
	v.get("count.php?" + handler).mustBeOK(t)
	sign := h.sign()
	second := v.begin("end.php?by=" + url.QueryEscape(by) + "&sign=" + sign.path + "&" + handler)
	if signal != 0 {
		h.killWorker(sign.await(), signal)
	}
	a := second.end(t)
	check(t, by != "being killed" || !a.ok(), "the request was not killed: %s", a)
	check(t, a.warning() == "", "the session was not stored silently: %s", a)
	began := time.Now()
	stored := v.stored(t, handler)
	return left{stored, time.Since(began)}
}

// killHolder kills the process that holds a session's lock and returns how long it took until the next request was answered.
func killHolder(t *testing.T, h *house, waits bool) time.Duration {
	t.Helper()
	v := h.visitor()
	v.get("count.php").mustBeOK(t)
	killed := v.begin("end.php?by=being+killed")
	holder := h.awaitHolder(v)
	var next *pending
	if waits {
		next = v.begin("count.php")
		h.awaitWaiters(1)
	}
	began := time.Now()
	h.killWorker(holder.PID, syscall.SIGKILL)
	if !waits {
		next = v.begin("count.php")
	}
	a := next.end(t).mustBeOK(t)
	took := time.Since(began)
	check(t, a.number("n") == 2, "the killed process' change was stored: %s", a)
	check(t, !killed.end(t).ok(), "the holder was not killed")
	return took
}

// Many sessions, two clients each, and a killer: every answer that says "stored" must be true, nothing may be stored
// twice, and no lock may be left.
func TestKilledWorkersLoseNothingThatWasAcknowledged(t *testing.T) {
	const kills = 120
	h := open(t, plan{workers: 16})
	crowd, leave := h.crowd(50, false)
	for range kills {
		eventually(t, 10*time.Second, "a worker is killed", func() (bool, string) {
			pids := h.workers()
			if len(pids) == 0 {
				return false, "no workers"
			}
			return syscall.Kill(pids[rand.IntN(len(pids))], syscall.SIGKILL) == nil, fmt.Sprint(pids)
		})
		awaitServed(t, crowd, 10)
	}
	leave()
	lost, kept := verify(t, crowd)
	t.Logf("%d sessions, %d workers killed: %d acknowledged, %d without an answer, %d stored",
		len(crowd), kills, acknowledged(crowd), lost, kept)
	check(t, lost > 0, "no kill hit a request: the test shows nothing")
	h.awaitNoLocks()
}

// crowd starts two clients on each of so many sessions. The caller calls leave, which waits for them.
func (h *house) crowd(sessions int, lenient bool) (crowd []*marker, leave func()) {
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range sessions {
		m := &marker{visitor: h.visitor(), lenient: lenient}
		crowd = append(crowd, m)
		for client := range 2 {
			clients.Go(func() { m.markUntil(stop, client) })
		}
	}
	return crowd, func() {
		close(stop)
		clients.Wait()
	}
}

// awaitServed waits until n more requests were acknowledged.
func awaitServed(t *testing.T, crowd []*marker, n int) {
	t.Helper()
	before := acknowledged(crowd)
	eventually(t, 10*time.Second, "requests are served again", func() (bool, string) {
		now := acknowledged(crowd)
		return now >= before+n, fmt.Sprint(now, " acknowledged, before ", before)
	})
}

// verify compares what was acknowledged with what is stored, and returns how many requests had no answer and how many
// marks are stored.
func verify(t *testing.T, crowd []*marker) (unanswered, stored int) {
	t.Helper()
	for _, m := range crowd {
		unanswered += m.unanswered
		stored += m.verify(t)
	}
	return unanswered, stored
}

// marker is a visitor whose requests each leave a mark of their own in the session.
type marker struct {
	*visitor
	lenient      bool // a request may also fail with a warning
	mu           sync.Mutex
	acknowledged []string // guarded by mu
	unanswered   int      // guarded by mu
	unexpected   []string // guarded by mu
}

// markUntil sends requests, one after the other, until stop is closed.
func (m *marker) markUntil(stop <-chan struct{}, client int) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		mark := fmt.Sprintf("%d-%d", client, i)
		a := m.get("append.php?mark=" + mark)
		m.mu.Lock()
		switch {
		case !a.ok(), m.lenient && a.warning() != "":
			m.unanswered++
		case a.fact("started") == true && a.fact("closed") == true && len(a.warnings()) == 0:
			m.acknowledged = append(m.acknowledged, mark)
		default:
			m.unexpected = append(m.unexpected, a.String())
		}
		m.mu.Unlock()
	}
}

func acknowledged(crowd []*marker) (n int) {
	for _, m := range crowd {
		m.mu.Lock()
		n += len(m.acknowledged)
		m.mu.Unlock()
	}
	return n
}

// verify returns how many of the visitor's marks are stored.
func (m *marker) verify(t *testing.T) int {
	t.Helper()
	check(t, len(m.unexpected) == 0, "an answer that is neither a success nor a kill: %v", m.unexpected)
	data, _ := m.get("read.php").mustBeOK(t).fact("data").(map[string]any)
	marks, _ := data["marks"].([]any)
	stored := make(map[string]int)
	for _, mark := range marks {
		stored[mark.(string)]++
	}
	for _, mark := range m.acknowledged {
		check(t, stored[mark] == 1, "mark %s was acknowledged and is stored %d times", mark, stored[mark])
	}
	// What is stored beyond that belongs to requests that were killed between the write and the answer.
	check(t, len(marks) == len(stored) && len(marks) <= len(m.acknowledged)+m.unanswered,
		"%d marks stored, %d of them different; %d acknowledged, %d unanswered",
		len(marks), len(stored), len(m.acknowledged), m.unanswered)
	return len(marks)
}
