package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// crowded has one request hold the lock of a session that was counted once, and another one meet it with a wait limit
// of 0.2 s and the given lock_failure. The holder ends after that.
func crowded(t *testing.T, failure string) (h *house, v *visitor, holder hold, met, held *answer) {
	h = open(t, plan{})
	v = h.visitor()
	v.get("count.php").mustBeOK(t)
	g := h.gate()
	first := v.begin("count.php?until=" + g.path)
	holder = h.awaitHolder(v)
	met = v.get("count.php?ini[coatcheck.lock_wait]=0.2&ini[coatcheck.lock_failure]=" + failure)
	g.open()
	return h, v, holder, met, first.end(t)
}

func (a *answer) mustNameHolder(t *testing.T, holder hold) {
	t.Helper()
	a.mustWarn(t, fmt.Sprintf("pid %d ", holder.PID), "count.php", "has held the lock for", "s of waiting")
}

func TestAtTheWaitLimitUnlockedWarnsAndGoesOn(t *testing.T) {
	t.Parallel()
	h, v, holder, met, held := crowded(t, "unlocked")
	met.mustNameHolder(t, holder)
	met.mustWarn(t, "goes on without the lock", "lock_failure=unlocked")
	check(t, met.fact("started") == true && met.number("n") == 2, "the request did not go on with the data: %s", met)
	held.mustBeOK(t)
	check(t, v.stored(t, "") == `{"n":2}`, "both counted from 1, so the last writer's 2 stands")
	h.awaitNoLocks()
}

func TestAtTheWaitLimitFailStartsNoSession(t *testing.T) {
	t.Parallel()
	h, v, holder, met, held := crowded(t, "fail")
	met.mustNameHolder(t, holder)
	met.mustWarn(t, "not started", "lock_failure=fail")
	check(t, met.fact("started") == false && met.fact("n") == nil, "the session was started: %s", met)
	held.mustBeOK(t)
	check(t, v.stored(t, "") == `{"n":2}`, "the holder's write is not there")
	h.awaitNoLocks()
}

func TestAtTheWaitLimitReadonlyDropsChanges(t *testing.T) {
	t.Parallel()
	h, v, holder, met, held := crowded(t, "readonly")
	met.mustNameHolder(t, holder)
	met.mustWarn(t, "changes will be dropped", "lock_failure=readonly")
	check(t, met.fact("started") == true && met.number("n") == 2, "the request did not go on with the data: %s", met)
	check(t, strings.Contains(strings.Join(met.warnings(), "\n"), "is not written"), "the drop was silent: %s", met)
	held.mustBeOK(t)
	check(t, v.stored(t, "") == `{"n":2}`, "the holder's write is not there")
	h.awaitNoLocks()
}

func TestTheWaitLimitIsKept(t *testing.T) {
	t.Parallel()
	_, _, _, met, _ := crowded(t, "fail")
	check(t, met.took >= 200*time.Millisecond && met.took < 2*time.Second, "a wait of 0.2 s took %s", met.took)
}

func TestWhenTheQueueIsFullTheNextIsToldAtOnce(t *testing.T) {
	t.Parallel()
	h := open(t, plan{daemon: []string{"COATCHECK_LOCK_MAX_WAITERS=1"}})
	v, g := h.visitor(), h.gate()
	first := v.begin("count.php?until=" + g.path)
	h.awaitHolder(v)
	second := v.begin("count.php")
	h.awaitWaiters(1)
	third := v.get("count.php?ini[coatcheck.lock_failure]=fail").mustWarn(t, "is busy after 0.0 s")
	check(t, third.took < 2*time.Second, "the third was told after %s", third.took)
	g.open()
	first.end(t).mustBeOK(t)
	second.end(t).mustBeOK(t)
}

func TestASessionReleasedByForceGoesToTheNextAndItsHolderIsRefused(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	v, g, nextGate := h.visitor(), h.gate(), h.gate()
	holder := v.begin("count.php?until=" + g.path)
	first := h.awaitHolder(v)
	next := v.begin("count.php?until=" + nextGate.path)
	h.awaitWaiters(1)
	out, err := exec.Command(theStage.daemon, "sessions", "release", v.id, "--force", "--socket", h.socket).CombinedOutput()
	check(t, err == nil, "coatcheck sessions release: %v: %s", err, out)
	h.awaitNextHolder(v, first)
	g.open()
	holder.end(t).mustWarn(t, "is not written", "superseded")
	nextGate.open()
	next.end(t).mustBeOK(t)
	check(t, v.stored(t, "") == `{"n":1}`, "the next holder's write is not what stands: %s", v.stored(t, ""))
	h.awaitNoLocks()
}
