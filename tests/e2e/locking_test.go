package e2e

import (
	"slices"
	"sync"
	"testing"
	"time"
)

func TestTwentyParallelRequestsOnOneSessionAreAllCounted(t *testing.T) {
	t.Parallel()
	h := open(t, plan{workers: 24})
	v := h.visitor()
	for _, a := range v.together(20, 20, "count.php?hold_ms=50") {
		a.mustBeOK(t)
	}
	check(t, v.stored(t, "") == `{"n":20}`, "the counter is not 20: %s", v.stored(t, ""))
	h.awaitNoLocks()
}

func TestTwoHundredRequestsOverEightWorkersAreAllCounted(t *testing.T) {
	t.Parallel()
	h := open(t, plan{workers: 8})
	v := h.visitor()
	var seen []int
	for _, a := range v.together(200, 64, "count.php") {
		seen = append(seen, a.mustBeOK(t).number("n"))
	}
	slices.Sort(seen)
	for i, n := range seen {
		check(t, n == i+1, "the answers are not 1 to 200, each once: %v", seen)
	}
	h.awaitNoLocks()
}

// The contrast: the tests above can fail.
func TestWithoutLockingUpdatesAreLost(t *testing.T) {
	t.Parallel()
	h := open(t, plan{workers: 24})
	v := h.visitor()
	for _, a := range v.together(20, 20, "count.php?hold_ms=50&ini[coatcheck.session_locking]=0") {
		a.mustBeOK(t)
	}
	n := v.get("count.php").number("n") - 1
	t.Logf("%d of 20 updates were kept", n)
	check(t, n > 0 && n < 20, "%d of 20 updates were kept without locking", n)
}

func TestRequestsOnOtherSessionsKeepTheirLatency(t *testing.T) {
	h := open(t, plan{workers: 24})
	other := h.visitor()
	measure := func() time.Duration {
		var took []time.Duration
		for range 40 {
			took = append(took, other.get("count.php").mustBeOK(t).took)
		}
		return median(took)
	}
	measure() // every worker's first request connects to the daemon
	alone := measure()

	crowd := h.visitor()
	var done sync.WaitGroup
	done.Go(func() { crowd.together(40, 20, "count.php?hold_ms=50") })
	h.awaitWaiters(19)
	beside := measure()
	waiting := h.status("waiters")
	done.Wait()

	t.Logf("median alone %s, beside %d waiters of another session %s: ratio %.2f",
		alone, waiting, beside, float64(beside)/float64(alone))
	check(t, waiting > 0, "the crowd was gone before the measurement was over")
	check(t, beside < 3*alone+5*time.Millisecond, "a request takes %s beside a busy session and %s alone", beside, alone)
}

func median(of []time.Duration) time.Duration {
	slices.Sort(of)
	return of[len(of)/2]
}

func TestALockIsRenewedOnlyUpToMaxHold(t *testing.T) {
	t.Parallel()
	h := open(t, plan{daemon: []string{"COATCHECK_LOCK_MAX_HOLD=1s"}})
	v, g := h.visitor(), h.gate()
	a := v.begin("count.php?ini[coatcheck.lock_lease]=0.3&until=" + g.path)
	h.awaitHolder(v)
	b := v.get("count.php").mustBeOK(t)
	check(t, b.took > 500*time.Millisecond, "the lock was not renewed at all: B had it after %s", b.took)
	g.open()
	a.end(t).mustWarn(t, "superseded")
	check(t, v.stored(t, "") == `{"n":1}`, "the data are not B's")
}

func TestWaitersAreServedInTheirOrder(t *testing.T) {
	t.Parallel()
	h := open(t, plan{workers: 8})
	v, g := h.visitor(), h.gate()
	first := v.begin("count.php?until=" + g.path)
	h.awaitHolder(v)
	var queue []*pending
	for i := range 5 {
		queue = append(queue, v.begin("count.php"))
		h.awaitWaiters(int64(i + 1))
	}
	g.open()
	first.end(t).mustBeOK(t)
	for i, p := range queue {
		check(t, p.end(t).mustBeOK(t).number("n") == i+2, "waiter %d was not served in its turn", i+1)
	}
}

func TestAWaiterThatGoesAwayLeavesNoLock(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	v, g := h.visitor(), h.gate()
	holder := v.begin("count.php?until=" + g.path)
	held := h.awaitHolder(v)
	free := h.workers()
	v.begin("count.php")
	h.awaitWaiters(1)
	for _, pid := range free {
		if pid != held.PID {
			h.killWorker(pid, 9) // one of them is the waiter
		}
	}
	h.awaitWaiters(0)
	g.open()
	holder.end(t).mustBeOK(t)
	h.awaitNoLocks()
	check(t, v.get("count.php").mustBeOK(t).number("n") == 2, "the dead waiter's request was counted")
}
