package e2e

import (
	"fmt"
	"net/url"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestPromise1OneHolder(t *testing.T) {
	t.Parallel()
	h := open(t, plan{workers: 12})
	v := h.visitor()
	witness := filepath.Join(h.dir, "files", "witness")
	for _, a := range v.together(100, 20, "witness.php?witness="+witness) {
		check(t, a.mustBeOK(t).fact("alone") == true, "two requests were inside one session: %s", a)
	}
	check(t, v.stored(t, "") == `{"n":100}`, "the counter is %s", v.stored(t, ""))

	// The witness can see two: without the lock it does.
	crowds := 0
	for _, a := range v.together(100, 20, "witness.php?ini[coatcheck.session_locking]=0&witness="+witness) {
		if a.mustBeOK(t).fact("alone") == false {
			crowds++
		}
	}
	check(t, crowds > 0, "the witness is blind")
}

// call sends one request of the client protocol from a PHP script; params are JSON.
func (h *house) call(method, params string) *answer {
	return h.visitor().get("call.php?method=" + method + "&params=" + url.QueryEscape(params))
}

func TestPromise2OnlyTheTokenReleases(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	h.call("lock.acquire", `{"name":"report","token":"mine"}`).mustBeOK(t)

	stranger := h.call("lock.release", `{"name":"report","token":"another"}`).mustBeOK(t)
	check(t, stranger.fact("result") == false, "another token released the lock: %s", stranger)
	renewed := h.call("lock.renew", `{"name":"report","token":"another","lease_ms":1}`)
	check(t, renewed.text("reason") == "not_holder", "another token renewed the lock: %s", renewed)
	check(t, len(h.locks()) == 1, "the lock is gone: %v", h.locks())
	own := h.call("lock.release", `{"name":"report","token":"mine"}`).mustBeOK(t)
	check(t, own.fact("result") == true && len(h.locks()) == 0, "the token did not release its lock: %s", own)

	h.call("lock.acquire", `{"name":"report","token":"late","lease_ms":1}`).mustBeOK(t)
	h.awaitNoLocks()
	expired := h.call("lock.release", `{"name":"report","token":"late"}`).mustBeOK(t)
	check(t, expired.fact("result") == false, "an expired lock matched: %s", expired)
}

func TestPromise3NoStaleWrite(t *testing.T) {
	t.Parallel()
	t.Run("a writer whose lock was granted to another is refused", writerThatOverranIsRefused)
	t.Run("a writer whose lease ran out while nobody came is accepted", writerThatOverranAloneIsAccepted)
	t.Run("a writer whose session was destroyed is refused", writerOfADestroyedSessionIsRefused)
}

// overrun has a request A hold the lock until its lease of 0.5 s has ended and B has taken the lock. B stays until
// its gate opens; so does A.
func overrun(t *testing.T) (h *house, v *visitor, a, b *pending, aGate, bGate gate) {
	t.Helper()
	h = open(t, plan{daemon: []string{"COATCHECK_LOCK_MAX_HOLD=0"}})
	v, aGate, bGate = h.visitor(), h.gate(), h.gate()
	v.get("count.php").mustBeOK(t)
	a = v.begin("count.php?ini[coatcheck.lock_lease]=0.5&until=" + aGate.path)
	first := h.awaitHolder(v)
	b = v.begin("count.php?until=" + bGate.path)
	h.awaitNextHolder(v, first)
	return h, v, a, b, aGate, bGate
}

func writerThatOverranIsRefused(t *testing.T) {
	t.Parallel()
	h, v, a, b, aGate, bGate := overrun(t)
	second, _ := h.holder(v)

	aGate.open()
	a.end(t).mustWarn(t, "is not written", "superseded", "lease", "granted to another")
	holder, held := h.holder(v)
	check(t, held && holder.Token == second.Token, "B lost its lock to A's late write: %v", h.locks())
	check(t, v.stored(t, "ini[coatcheck.session_locking]=0") == `{"n":1}`, "A's data were stored")

	c := v.begin("count.php")
	h.awaitWaiters(1)
	check(t, !c.isOver(), "C did not wait for B")
	bGate.open()
	check(t, b.end(t).mustBeOK(t).number("n") == 2, "B did not count from 1")
	check(t, c.end(t).mustBeOK(t).number("n") == 3, "C did not read what B wrote")
	h.awaitNoLocks()
}

func writerThatOverranAloneIsAccepted(t *testing.T) {
	t.Parallel()
	h := open(t, plan{daemon: []string{"COATCHECK_LOCK_MAX_HOLD=0"}})
	v, g := h.visitor(), h.gate()
	a := v.begin("count.php?ini[coatcheck.lock_lease]=0.2&until=" + g.path)
	h.awaitHolder(v)
	h.awaitNoLocks()
	g.open()
	a.end(t).mustBeOK(t)
	check(t, v.stored(t, "") == `{"n":1}`, "the late write is not there")
}

func writerOfADestroyedSessionIsRefused(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	v, g := h.visitor(), h.gate()
	v.get("count.php").mustBeOK(t)
	slow := v.begin("count.php?until=" + g.path)
	h.awaitHolder(v)
	out := v.get("destroy.php?ini[coatcheck.lock_wait]=0").mustWarn(t, "without the lock")
	check(t, out.fact("destroyed") == true, "the session was not destroyed: %s", out)
	g.open()
	slow.end(t).mustWarn(t, "is not written", "destroyed")
	_, exists := h.record(v)
	check(t, !exists, "the slower request brought the session back")
	h.awaitNoLocks()
	check(t, v.get("count.php").mustBeOK(t).number("n") == 1, "a later start does not begin anew")
	check(t, v.get("count.php").mustBeOK(t).number("n") == 2, "what the later start wrote is not kept")
}

func TestPromise4ADeadHolderFreesAtOnce(t *testing.T) {
	t.Run("a session's lock is free within 100 ms after kill -9", func(t *testing.T) {
		const rounds = 9
		h := open(t, plan{})
		for name, waits := range map[string]bool{"comes after the kill": false, "waits already": true} {
			var took []time.Duration
			for range rounds {
				took = append(took, killHolder(t, h, waits))
			}
			t.Logf("from kill -9 of the holder to the answer of a request that %s: median %s, longest %s",
				name, median(took), took[rounds-1])
			check(t, median(took) < 100*time.Millisecond, "kill -9 to the next answer: median of %v", took)
			check(t, took[rounds-1] < time.Second, "kill -9 to the next answer: longest of %v", took)
		}
	})
	t.Run("a bound lock ends with its request", func(t *testing.T) {
		t.Parallel()
		h := open(t, plan{})
		h.acquireAndEnd(t, "bound=1", 0)
		h.awaitNoLocks()
	})
	t.Run("a bound lock ends with its process", func(t *testing.T) {
		t.Parallel()
		h := open(t, plan{})
		h.acquireAndEnd(t, "bound=1", syscall.SIGSEGV)
		h.awaitNoLocks()
	})
	t.Run("a detached lock outlives its process and is released by its token from another", func(t *testing.T) {
		t.Parallel()
		h := open(t, plan{})
		h.acquireAndEnd(t, "bound=0", syscall.SIGKILL)
		eventually(t, 5*time.Second, "the dead worker's connection is closed", func() (bool, string) {
			open := h.status("connections")
			return open == 1, fmt.Sprint(open, " connections") // the one that asks
		})
		check(t, len(h.locks()) == 1, "the detached lock is gone: %v", h.locks())
		a := h.call("lock.release", `{"name":"job","token":"0123456789"}`).mustBeOK(t)
		check(t, a.fact("result") == true && len(h.locks()) == 0, "its token did not release it: %s", a)
	})
	t.Run("a holder that merely takes long keeps its lock", leaseIsRenewed)
}

// acquireAndEnd has a script take the lock "job" and end, by the signal if there is one.
func (h *house) acquireAndEnd(t *testing.T, bound string, s syscall.Signal) {
	t.Helper()
	g := h.gate()
	taker := h.visitor().begin("acquire_and_end.php?name=job&token=0123456789&" + bound + "&until=" + g.path)
	var locks []lock
	eventually(t, 5*time.Second, "the lock is taken", func() (bool, string) {
		locks = h.locks()
		return len(locks) == 1, fmt.Sprint(locks)
	})
	if s == 0 {
		g.open()
		taker.end(t).mustBeOK(t)
		return
	}
	h.killWorker(locks[0].Holders[0].PID, s)
	check(t, !taker.end(t).ok(), "the holder was not killed")
}

func leaseIsRenewed(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})
	v, g := h.visitor(), h.gate()
	a := v.begin("count.php?ini[coatcheck.lock_lease]=0.3&until=" + g.path)
	first := h.awaitHolder(v)
	b := v.begin("count.php")
	eventually(t, 10*time.Second, "A has held the lock for four leases", func() (bool, string) {
		holder, _ := h.holder(v)
		check(t, holder.Token == first.Token, "A lost the lock after %d ms", holder.HeldMs)
		return holder.HeldMs > 1200, fmt.Sprint(holder.HeldMs, " ms")
	})
	g.open()
	check(t, a.end(t).mustBeOK(t).number("n") == 1, "A did not count to 1")
	check(t, b.end(t).mustBeOK(t).number("n") == 2, "B did not read what A wrote")
	h.awaitNoLocks()
}

func TestPromise5AFailureIsNeverAGuess(t *testing.T) {
	t.Parallel()
	h := open(t, plan{daemon: []string{"COATCHECK_LIMITS_MAX_FRAME=64KiB"}})
	h.call("lock.acquire", `{"name":"taken","token":"first"}`).mustBeOK(t)
	h.call("kv.set", `{"key":"word","value":"no number"}`).mustBeOK(t)

	miss := h.call("kv.get", `{"key":"missing"}`).mustBeOK(t)
	check(t, miss.fact("result") == nil && miss.fact("exception") == nil, "a miss: %s", miss)
	for _, failure := range []struct{ method, params, exception, reason string }{
		{"lock.acquire", `{"name":"taken","token":"second"}`, "BusyException", "wait_over"},
		{"kv.incr_by", `{"key":"word"}`, "RefusedException", "not_integer"},
		{"lock.renew", `{"name":"taken","token":"second","lease_ms":1}`, "RefusedException", "not_holder"},
		{"session.open", `{"id":"a/b"}`, "RefusedException", "invalid_id"},
		{"kv.get", `{"kee":"misspelt"}`, "ProtocolException", ""},
		{"kv.no_such_method", `{}`, "ProtocolException", ""},
	} {
		a := h.call(failure.method, failure.params)
		check(t, a.text("exception") == `Coatcheck\`+failure.exception && a.text("reason") == failure.reason,
			"%s %s is not a %s: %s", failure.method, failure.params, failure.exception, a)
	}
	tooLarge := h.visitor().get("too_large.php?size=100000")
	check(t, tooLarge.text("exception") == `Coatcheck\TooLargeException`, "too large: %s", tooLarge)

	h.pause()
	hung := h.visitor().get(`call.php?method=server.ping&ini[coatcheck.timeout_ms]=100`)
	check(t, hung.text("exception") == `Coatcheck\TimeoutException`, "a daemon that hangs: %s", hung)
	h.resume()
	h.daemon.kill()
	gone := h.call("server.ping", `{}`)
	check(t, gone.text("exception") == `Coatcheck\ConnectionException`, "no daemon: %s", gone)
	failed := h.visitor().get("start.php")
	check(t, failed.fact("started") == false, "a read failure is an empty session: %s", failed)
}

func TestPromise6AcknowledgedMeansKept(t *testing.T) {
	t.Parallel()
	t.Run("through kills of the daemon under load", func(t *testing.T) {
		t.Parallel()
		const kills = 5
		h := open(t, plan{workers: 8, daemon: []string{"COATCHECK_DATA=@DIR@/data"}})
		crowd, leave := h.crowd(10, true)
		for range kills {
			awaitServed(t, crowd, 20)
			h.daemon.kill()
			h.startDaemon()
		}
		awaitServed(t, crowd, 20)
		leave()
		lost, kept := verify(t, crowd)
		t.Logf("%d kills of the daemon: %d acknowledged, %d failed or without an answer, %d stored",
			kills, acknowledged(crowd), lost, kept)
	})
	t.Run("detached locks too", func(t *testing.T) {
		t.Parallel()
		h := open(t, plan{daemon: []string{"COATCHECK_DATA=@DIR@/data"}})
		h.call("lock.acquire", `{"name":"job","token":"mine"}`).mustBeOK(t)
		h.daemon.kill()
		h.startDaemon()
		stranger := h.call("lock.acquire", `{"name":"job","token":"another"}`)
		check(t, stranger.text("exception") == `Coatcheck\BusyException`, "the lock was granted anew: %s", stranger)
		own := h.call("lock.release", `{"name":"job","token":"mine"}`).mustBeOK(t)
		check(t, own.fact("result") == true, "the lock is gone: %s", own)
	})
	t.Run("a request whose daemon was restarted meanwhile still writes", func(t *testing.T) {
		t.Parallel()
		h := open(t, plan{daemon: []string{"COATCHECK_DATA=@DIR@/data"}})
		v, g := h.visitor(), h.gate()
		v.get("count.php").mustBeOK(t)
		slow := v.begin("count.php?until=" + g.path)
		h.awaitHolder(v)
		h.daemon.kill()
		h.startDaemon()
		g.open()
		check(t, slow.end(t).mustBeOK(t).number("n") == 2, "the slow request did not count from 1")
		h.awaitNoLocks()
		check(t, v.stored(t, "") == `{"n":2}`, "its write was lost: %s", v.stored(t, ""))
	})
}

func TestPromise7SessionsAndLocksAreNeverEvicted(t *testing.T) {
	t.Parallel()
	t.Run("by a flush of the cache", func(t *testing.T) {
		t.Parallel()
		h := open(t, plan{})
		v, g := h.visitor(), h.gate()
		v.get("count.php").mustBeOK(t)
		h.call("lock.acquire", `{"name":"report","token":"mine"}`).mustBeOK(t)
		flusher := v.begin("flush_beside_session.php?until=" + g.path)
		held := h.awaitHolder(v)
		g.open()
		a := flusher.end(t).mustBeOK(t)
		check(t, a.fact("flushed") == true && a.fact("cached") == nil, "nothing was flushed: %s", a)
		check(t, held.PID > 0 && v.stored(t, "") == `{"n":2}`, "the session did not survive: %s", v.stored(t, ""))
		own := h.call("lock.release", `{"name":"report","token":"mine"}`).mustBeOK(t)
		check(t, own.fact("result") == true, "the lock did not survive: %s", own)
	})
	t.Run("by a cache that is full", func(t *testing.T) {
		t.Parallel()
		h := open(t, plan{daemon: []string{"COATCHECK_MEMORY_LIMIT=2MiB"}})
		v := h.visitor()
		v.get("count.php").mustBeOK(t)
		h.call("lock.acquire", `{"name":"report","token":"mine"}`).mustBeOK(t)
		a := h.visitor().get("fill_cache.php?values=2000").mustBeOK(t)
		check(t, a.number("kept") > 0 && a.number("kept") < a.number("written"), "nothing was evicted: %s", a)
		check(t, v.get("count.php").mustBeOK(t).number("n") == 2, "the session was evicted")
		own := h.call("lock.release", `{"name":"report","token":"mine"}`).mustBeOK(t)
		check(t, own.fact("result") == true, "the lock was evicted: %s", own)
	})
}
