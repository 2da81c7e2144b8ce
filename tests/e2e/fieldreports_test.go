package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// What went wrong for users of other session stores, as they reported it in public. Each subtest is named for what is right.

func TestReportsOnSessionLocks(t *testing.T) {
	t.Parallel()
	h := open(t, plan{workers: 24})

	t.Run("phpredis 37: parallel requests do not overwrite each other", func(t *testing.T) {
		v := h.visitor()
		for _, a := range v.together(20, 20, "count.php") {
			a.mustBeOK(t)
		}
		check(t, v.stored(t, "") == `{"n":20}`, "20 requests counted to %s", v.stored(t, ""))
	})
	t.Run("phpredis 1908: a waiter waits as long as a request takes, and sees its write", func(t *testing.T) {
		v := h.visitor()
		first := v.begin("count.php?hold_ms=1000")
		h.awaitHolder(v)
		second := v.get("count.php").mustBeOK(t)
		check(t, first.end(t).mustBeOK(t).number("n") == 1 && second.number("n") == 2, "the waiter did not wait: %s", second)
	})
	t.Run("phpredis 2382: at a busy lock, starting fails only for those who chose so", func(t *testing.T) {
		for failure, started := range map[string]bool{"unlocked": true, "readonly": true, "fail": false} {
			_, _, _, met, _ := crowded(t, failure)
			check(t, met.fact("started") == started, "%s: %s", failure, met)
		}
	})
	t.Run("phpredis 2139: every failed read says why", readFailuresSayWhy)
	t.Run("phpredis 2843: two locks of one worker have different tokens", func(t *testing.T) {
		h := open(t, plan{workers: 1})
		v := h.visitor()
		first, second := v.get("token.php").mustBeOK(t), v.get("token.php").mustBeOK(t)
		check(t, first.number("pid") == second.number("pid"), "two workers: %s, %s", first, second)
		check(t, len(first.text("token")) == 6 && first.text("token") != second.text("token"), "tokens %s and %s", first, second)
		check(t, second.fact("fence").(float64) > first.fact("fence").(float64), "fences %s and %s", first, second)
	})
	t.Run("php-memcached 364: a late end does not release the next holder's lock", writerThatOverranIsRefused)
	t.Run("php-memcached 176: a crash does not make others wait for a lease", func(t *testing.T) {
		took := killHolder(t, h, true)
		check(t, took < time.Second, "the next request took %s", took)
	})
	t.Run("php-redis-session-abstract 18: read_and_close does not lock out the same script", func(t *testing.T) {
		v := h.visitor()
		a := v.get("read_and_close.php").mustBeOK(t)
		check(t, a.fact("started") == true && a.number("n") == 1, "after two reads: %s", a)
	})
	t.Run("CodeIgniter4 8567: a failure to read is never an empty session that is then written", func(t *testing.T) {
		h := open(t, plan{workers: 1})
		v := h.visitor()
		v.get("count.php").mustBeOK(t)
		h.pause()
		a := v.get("count.php?ini[coatcheck.timeout_ms]=100&ini[coatcheck.lock_wait]=0")
		check(t, a.fact("started") == false && a.fact("n") == nil, "a session was started: %s", a)
		h.resume()
		check(t, v.stored(t, "") == `{"n":1}`, "the session is now %s", v.stored(t, ""))
	})
	t.Run("php-src 16027: a handler that throws in read leaves no lock", func(t *testing.T) {
		v := h.visitor()
		check(t, v.get("reading_handler_throws.php").text("thrown") != "", "nothing was thrown")
		check(t, v.get("count.php").mustBeOK(t).took < time.Second, "the next request waited")
	})
	t.Run("Zebra_Session 36: die leaves no lock", func(t *testing.T) {
		v := h.visitor()
		v.get("end.php?by=die")
		a := v.get("count.php").mustBeOK(t)
		check(t, a.number("n") == 2 && a.took < time.Second, "after die: %s", a)
	})
	t.Run("laravel 5416: a visitor who logged out does not come back", writerOfADestroyedSessionIsRefused)
	h.awaitNoLocks()
}

func readFailuresSayWhy(t *testing.T) {
	h, v, _, busy, _ := crowded(t, "fail")
	tooLarge := v.get("store.php?kind=random&size=17000000")
	odd := (&visitor{h: h, id: "a:b"}).get("start.php")
	h.daemon.kill()
	absent := v.get("start.php")
	seen := make(map[string]string)
	for name, a := range map[string]*answer{"busy": busy, "too large": tooLarge, "odd id": odd, "absent": absent} {
		_, why, _ := strings.Cut(a.mustWarn(t, h.socket).warning(), h.socket)
		check(t, seen[why] == "", "%s and %s say the same: %s", name, seen[why], why)
		seen[why] = name
	}
	busy.mustWarn(t, "is busy")
	tooLarge.mustWarn(t, "limit")
	odd.mustWarn(t, "characters")
	absent.mustWarn(t, "refused")
}

func TestReportsOnIDs(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})

	t.Run("phpredis 1289: a new id works with and without locking, strict mode and SessionHandler", func(t *testing.T) {
		for _, query := range []string{"", "ini[coatcheck.session_locking]=0", "proxy=1", "ini[session.use_strict_mode]=1"} {
			for _, deleted := range []bool{false, true} {
				regenerate(t, h, deleted, query)
			}
		}
	})
	t.Run("phpredis 1033: strict mode does not accept an id that it did not give", func(t *testing.T) {
		v := h.visitor()
		a := v.get("count.php?ini[session.use_strict_mode]=1").mustBeOK(t)
		check(t, a.text("id") != v.id, "the visitor's own id was accepted: %s", a)
	})
	t.Run("php-src 23597: session_reset is quick and does not wait for its own lock", func(t *testing.T) {
		v := h.visitor()
		v.get("reset.php").mustBeOK(t) // the worker's first request connects
		quickest := time.Hour
		for range 5 {
			took := v.get("reset.php").mustBeOK(t).fact("took_ms").(float64)
			quickest = min(quickest, time.Duration(took*float64(time.Millisecond)))
		}
		check(t, quickest < 10*time.Millisecond, "session_reset() took %s at best", quickest)
	})
	t.Run("phpredis 531: an empty id is not a session that all share", func(t *testing.T) {
		nobody := &visitor{h: h, id: `""`}
		first, second := nobody.get("count.php").mustBeOK(t), nobody.get("count.php").mustBeOK(t)
		check(t, first.number("n") == 1 && second.number("n") == 1, "two visitors share a session: %s, %s", first, second)
	})
	h.awaitNoLocks()
}

func TestReportsOnLifeAndData(t *testing.T) {
	t.Parallel()
	h := open(t, plan{})

	t.Run("phpredis 1354: a session that is only read lives on", func(t *testing.T) {
		h.visitor().outlivesItsLifetime(t)
	})
	t.Run("phpredis 477: data with NULs are not cut", func(t *testing.T) {
		h.visitor().keeps(t, "odd", 10)
		h.visitor().keeps(t, "random", 1<<20)
	})
	h.awaitNoLocks()
}

func TestReportsOnConnections(t *testing.T) {
	t.Parallel()

	t.Run("phpredis 70: a restart of the daemon costs no request", func(t *testing.T) {
		h := open(t, plan{workers: 1})
		v := h.visitor()
		first := v.get("count.php").mustBeOK(t)
		h.daemon.end()
		h.startDaemon()
		second := v.get("count.php").mustBeOK(t)
		check(t, second.number("pid") == first.number("pid"), "another worker answered")
	})
	t.Run("phpredis 1642: a fork does not share the connection, and the child does not end the parent's session", func(t *testing.T) {
		h := open(t, plan{})
		v := h.visitor()
		out := h.cli("fork.php", v.id)
		a := &answer{body: out}
		check(t, a.fact("locked_after_child") == true, "the child released the parent's lock: %s", out)
		values, _ := json.Marshal(a.fact("values"))
		check(t, string(values) == `["was here","goes on"]`, "replies were mixed: %s", out)
		check(t, a.fact("closed") == true && a.fact("locked") == false, "the parent could not end its session: %s", out)
		check(t, a.text("by") == "parent", "the child's data were stored: %s", out)
		h.awaitNoLocks()
	})
}
