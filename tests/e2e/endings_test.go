package e2e

import (
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
	by      string
	written bool
	signal  syscall.Signal // sent to the worker
	pool    []string
}{
	{by: "exit", written: true},
	{by: "die", written: true},
	{by: "an uncaught exception", written: true},
	{by: "a fatal error", written: true},
	{by: "running out of memory", written: true},
	{by: "max_execution_time", written: true},
	{by: "being killed", signal: syscall.SIGKILL},
	{by: "being killed", signal: syscall.SIGSEGV},
	{by: "being killed", pool: []string{"request_terminate_timeout=1s"}},
}

func TestEveryEndingLeavesWhatPHPsOwnHandlerLeaves(t *testing.T) {
	t.Parallel()
	for _, e := range endings {
		name := e.by
		switch {
		case e.signal != 0:
			name += " by " + e.signal.String()
		case e.pool != nil:
			name += " by request_terminate_timeout"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t, plan{pool: e.pool})
			files := endBy(t, h, h.filesHandler(), e.by, e.signal)
			ours := endBy(t, h, "", e.by, e.signal)
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
	const (
		sessions = 50
		abreast  = 2
		kills    = 120
	)
	h := open(t, plan{workers: 16})
	var crowd []*marker
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range sessions {
		m := &marker{visitor: h.visitor()}
		crowd = append(crowd, m)
		for client := range abreast {
			clients.Go(func() { m.markUntil(stop, client) })
		}
	}
	for range kills {
		eventually(t, 10*time.Second, "a worker is killed", func() (bool, string) {
			pids := h.workers()
			if len(pids) == 0 {
				return false, "no workers"
			}
			return syscall.Kill(pids[rand.IntN(len(pids))], syscall.SIGKILL) == nil, fmt.Sprint(pids)
		})
		served := totalAcknowledged(crowd)
		eventually(t, 10*time.Second, "requests are served after a kill", func() (bool, string) {
			return totalAcknowledged(crowd) >= served+10, fmt.Sprint(totalAcknowledged(crowd), " acknowledged")
		})
	}
	close(stop)
	clients.Wait()

	lost, kept := 0, 0
	for _, m := range crowd {
		lost += m.unanswered
		kept += m.verify(t)
	}
	t.Logf("%d sessions, %d workers killed: %d acknowledged, %d without an answer, %d stored",
		sessions, kills, totalAcknowledged(crowd), lost, kept)
	check(t, lost > 0, "no kill hit a request: the test shows nothing")
	h.awaitNoLocks()
}

// marker is a visitor whose requests each leave a mark of their own in the session.
type marker struct {
	*visitor
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
		case !a.ok():
			m.unanswered++
		case a.fact("started") == true && a.fact("closed") == true && len(a.warnings()) == 0:
			m.acknowledged = append(m.acknowledged, mark)
		default:
			m.unexpected = append(m.unexpected, a.String())
		}
		m.mu.Unlock()
	}
}

func totalAcknowledged(crowd []*marker) (n int) {
	for _, m := range crowd {
		m.mu.Lock()
		n += len(m.acknowledged)
		m.mu.Unlock()
	}
	return n
}

// verify compares what was acknowledged with what is stored, and returns how many marks are.
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
