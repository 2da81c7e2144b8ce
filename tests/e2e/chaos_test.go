package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	chaosLease   = 500 * time.Millisecond
	chaosMaxHold = time.Second
)

// TestChaosOfPHPProcesses kills, stops and continues workers of php-fpm while 50 sessions count, each by two clients or six. No
// acknowledged count may be lost, none may be counted twice, a process that was stopped until its lock had passed on may not
// store, and in the end the daemon must be as small as before and hold no lock.
//
// CHAOS_ROUNDS is the number of blows (150 if it is not set), CHAOS_SEED the seed of another run.
func TestChaosOfPHPProcesses(t *testing.T) {
	rounds := fromEnv(t, "CHAOS_ROUNDS", 150)
	seed := fromEnv(t, "CHAOS_SEED", uint64(time.Now().UnixNano()))
	t.Logf("CHAOS_SEED=%d", seed)
	h := open(t, plan{
		workers: 20,
		ini: []string{
			fmt.Sprint("coatcheck.lock_lease=", chaosLease.Seconds()), "coatcheck.lock_failure=fail",
			"max_execution_time=0",
		},
		// GOGC, lest garbage that is not yet collected look like growth.
		daemon: []string{"COATCHECK_LOCK_MAX_HOLD=" + chaosMaxHold.String(), "GOGC=50"},
	})
	c := &chaos{h: h, rnd: rand.New(rand.NewPCG(seed, 0)), blows: make(map[string]int), stopped: make(map[int]bool)}
	crowd, leave := h.counters(50, seed)
	crowd.awaitCounted(t, 500) // every worker has its connection by then
	before := h.size()
	began := time.Now()
	for range rounds {
		c.strike()
		crowd.awaitCounted(t, 1+c.rnd.IntN(5))
	}
	took := time.Since(began)
	c.awaitRefusal(crowd)
	c.end()
	leave()
	c.verify(crowd)
	h.awaitNoLocks()
	h.awaitWaiters(0)
	after := h.size()
	t.Logf("%d blows in %s: %v", rounds, took.Round(time.Millisecond), c.blows)
	t.Logf("the daemon before: %v, after: %v", before, after)
	// After is smaller as a rule: who was killed last has not connected anew.
	check(t, after.descriptors <= before.descriptors+2, "descriptors: %v before, %v after", before, after)
	check(t, after.goroutines <= before.goroutines+4, "goroutines: %v before, %v after", before, after)
	check(t, after.heap <= before.heap+8<<20, "memory: %v before, %v after", before, after)
}

// fromEnv returns a number of the environment, or the given one.
func fromEnv[N int | uint64](t *testing.T, name string, otherwise N) N {
	t.Helper()
	given := os.Getenv(name)
	if given == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(given, 10, 64)
	check(t, err == nil && n > 0, "%s is %q, not a number above 0", name, given)
	return N(n)
}

// chaos strikes at the workers. Only the test's goroutine calls its methods.
type chaos struct {
	h     *house
	rnd   *rand.Rand
	kills int
	blows map[string]int // by kind and stage

	mu      sync.Mutex
	stopped map[int]bool // workers that are stopped; guarded by mu
	conts   sync.WaitGroup
}

// strike kills a worker or stops one for a while.
func (c *chaos) strike() {
	c.h.t.Helper()
	const milliseconds = int(time.Millisecond)
	switch c.rnd.IntN(10) {
	case 0, 1: // whoever it hits
		c.kill("")
	case 2, 3: // in the queue, or on the way there
		c.kill("asking")
	case 4:
		c.kill("inside")
	case 5:
		c.kill("storing")
	case 6, 7:
		c.stop("", time.Duration(c.rnd.IntN(50*milliseconds)))
	case 8: // longer than the lease, which is renewed
		c.stop("inside", chaosLease+time.Duration(c.rnd.IntN(100*milliseconds)))
	case 9: // longer than the lock may be held
		c.stop("inside", chaosMaxHold+time.Duration(100*milliseconds+c.rnd.IntN(400*milliseconds)))
	}
}

// aim returns a worker that is at the stage, or any when none is or the stage is "", and what it was doing.
func (c *chaos) aim(stage string, spare func(pid int) bool) (pid int, at string) {
	c.h.t.Helper()
	eventually(c.h.t, 10*time.Second, "there is a worker to strike", func() (bool, string) {
		pids := c.h.workers()
		c.rnd.Shuffle(len(pids), func(i, j int) { pids[i], pids[j] = pids[j], pids[i] })
		pid = 0
		for _, one := range pids {
			if spare(one) {
				continue
			}
			is := c.stage(one)
			if pid == 0 || is == stage {
				pid, at = one, is
			}
			if stage == "" || at == stage {
				break
			}
		}
		return pid != 0, fmt.Sprint(pids)
	})
	return pid, at
}

// stage returns where a worker is in the script.
func (c *chaos) stage(pid int) string {
	is, err := os.ReadFile(filepath.Join(c.h.dir, "files", strconv.Itoa(pid)))
	switch {
	case err != nil:
		return "new"
	case len(is) == 0:
		return "between"
	}
	return string(is)
}

func (c *chaos) kill(stage string) {
	pid, at := c.aim(stage, func(int) bool { return false })
	if syscall.Kill(pid, syscall.SIGKILL) == nil {
		c.kills++
		c.blows["kill "+at]++
	}
}

// stop stops a worker, and continues it after a while. At most a quarter of the workers are stopped at a time.
func (c *chaos) stop(stage string, d time.Duration) {
	c.mu.Lock()
	stopped := maps.Clone(c.stopped)
	c.mu.Unlock()
	if len(stopped) >= c.h.plan.workers/4 {
		return
	}
	pid, at := c.aim(stage, func(pid int) bool { return stopped[pid] })
	if syscall.Kill(pid, syscall.SIGSTOP) != nil {
		return
	}
	switch {
	case d > chaosMaxHold:
		at += " beyond max_hold"
	case d > chaosLease:
		at += " beyond the lease"
	}
	c.blows["stop "+at]++
	c.mu.Lock()
	c.stopped[pid] = true
	c.mu.Unlock()
	c.conts.Add(1)
	time.AfterFunc(d, func() {
		defer c.conts.Done()
		syscall.Kill(pid, syscall.SIGCONT) // it may have been killed
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.stopped, pid)
	})
}

// awaitRefusal stops workers until the late write of one is refused, as those of the blows were if there were many.
func (c *chaos) awaitRefusal(crowd *crowd) {
	c.h.t.Helper()
	eventually(c.h.t, 30*time.Second, "the write of a process that was stopped until its lock had passed on is refused", func() (bool, string) {
		if crowd.refused.Load() == 0 {
			c.stop("inside", 2*chaosMaxHold)
		}
		return crowd.refused.Load() > 0, fmt.Sprint(c.blows)
	})
}

// end waits until all workers go on.
func (c *chaos) end() { c.conts.Wait() }

// verify compares what was acknowledged with what is stored.
func (c *chaos) verify(crowd *crowd) {
	t := c.h.t
	t.Helper()
	acknowledged, stored, unanswered, open := 0, 0, 0, 0
	for _, v := range crowd.counters {
		check(t, len(v.unexpected) == 0, "%d answers that are neither a success, a refusal nor a kill: %v", len(v.unexpected), v.unexpected)
		data, _ := v.get("read.php").mustBeOK(t).fact("data").(map[string]any)
		last, _ := data["n"].(float64)
		n := int(last)
		slices.Sort(v.counts)
		check(t, len(slices.Compact(slices.Clone(v.counts))) == len(v.counts), "a number was given to two requests: %v", v.counts)
		check(t, len(v.counts) == 0 || v.counts[len(v.counts)-1] <= n, "%d is stored, and %v were acknowledged", n, v.counts)
		check(t, n >= len(v.counts) && n <= len(v.counts)+v.open,
			"%d is stored; %d acknowledged, %d without an answer", n, len(v.counts), v.open)
		acknowledged, stored = acknowledged+len(v.counts), stored+n
		unanswered, open = unanswered+v.unanswered, open+v.open
	}
	t.Logf("%d counts acknowledged, %d of %d without an answer are stored as well; %d writes refused as superseded; %d kills hit a request",
		acknowledged, stored-acknowledged, open, crowd.refused.Load(), unanswered)
	check(t, unanswered > 0 && unanswered <= c.kills, "%d requests without an answer, %d kills", unanswered, c.kills)
}

// crowd is all visitors, and what became of their requests so far.
type crowd struct {
	counters []*counter
	counted  atomic.Int64 // and acknowledged
	refused  atomic.Int64 // writes whose lock had been granted to another since
}

// counter is a visitor whose requests count.
type counter struct {
	*visitor
	crowd *crowd

	mu         sync.Mutex
	counts     []int    // the numbers that were acknowledged; guarded by mu
	unanswered int      // requests; guarded by mu
	open       int      // those that may have counted; guarded by mu
	unexpected []string // guarded by mu
}

// counters starts two clients on each of so many sessions, six on every tenth. The caller calls leave, which waits for them.
func (h *house) counters(sessions int, seed uint64) (all *crowd, leave func()) {
	all = new(crowd)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range sessions {
		v := &counter{visitor: h.visitor(), crowd: all}
		all.counters = append(all.counters, v)
		abreast := 2
		if i%10 == 0 {
			abreast = 6
		}
		for client := range abreast {
			rnd := rand.New(rand.NewPCG(seed, uint64(100*i+client)))
			clients.Go(func() { v.visitUntil(stop, rnd) })
		}
	}
	return all, func() {
		close(stop)
		clients.Wait()
	}
}

// visitUntil sends requests, one after the other, until stop is closed.
func (v *counter) visitUntil(stop <-chan struct{}, rnd *rand.Rand) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		do := [...]string{"count", "count", "count", "count", "count", "count", "count", "count", "abort", "exit"}[rnd.IntN(10)]
		a := v.get(fmt.Sprintf("chaos.php?do=%s&hold_ms=%d&stages=%s", do, rnd.IntN(8), filepath.Join(v.h.dir, "files")))
		v.note(do, a)
	}
}

func (v *counter) note(do string, a *answer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case !a.ok():
		v.unanswered++
		if do == "count" {
			v.open++
		}
	case strings.Contains(a.warning(), "superseded"):
		v.crowd.refused.Add(1)
	case len(a.warnings()) > 0 || a.fact("started") != true || a.fact("closed") != true:
		v.unexpected = append(v.unexpected, a.String())
	case do == "count":
		v.counts = append(v.counts, a.number("n"))
		v.crowd.counted.Add(1)
	}
}

// awaitCounted waits until n more counts were acknowledged.
func (c *crowd) awaitCounted(t *testing.T, n int) {
	t.Helper()
	before := c.counted.Load()
	eventually(t, 20*time.Second, "the sessions count", func() (bool, string) {
		now := c.counted.Load()
		return now >= before+int64(n), fmt.Sprint(now, " counts, before ", before)
	})
}

// size is what the daemon takes.
type size struct {
	descriptors, goroutines int64
	heap                    int64 // in use, without what the collector keeps for later; bytes
	resident                int64 // bytes
}

func (s size) String() string {
	return fmt.Sprintf("%d descriptors, %d goroutines, heap %d KiB, resident %d KiB",
		s.descriptors, s.goroutines, s.heap>>10, s.resident>>10)
}

func (h *house) size() size {
	h.t.Helper()
	status, body := h.page("/metrics")
	check(h.t, status == http.StatusOK, "/metrics answered %d: %s", status, body)
	metric := func(name string) int64 {
		for line := range strings.Lines(body) {
			if value, found := strings.CutPrefix(line, name+" "); found {
				n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				check(h.t, err == nil, "%s", line)
				return int64(n)
			}
		}
		h.t.Fatalf("/metrics has no %s", name)
		return 0
	}
	return size{
		descriptors: metric("process_open_fds"), goroutines: metric("go_goroutines"),
		heap: metric("go_memstats_heap_inuse_bytes"), resident: metric("process_resident_memory_bytes"),
	}
}
