package phpsock

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

func TestEveryMethodHasAHandler(t *testing.T) {
	for m := range wire.Unknown {
		if handlers[m].serve == nil {
			t.Errorf("%s has no handler", m)
		}
	}
}

func TestValues(t *testing.T) {
	v := open(t, nil).visit()
	for i, c := range []struct {
		method string
		params []any
		want   string
	}{
		{"kv.get", []any{"key", "k"}, "<nil>"},
		{"kv.set", []any{"key", "k", "value", "v1"}, "true"},
		{"kv.get", []any{"key", "k"}, "v1"},
		{"kv.set", []any{"key", "k", "value", "v2", "nx", true}, "false"},
		{"kv.set", []any{"key", "new", "value", "v2", "xx", true}, "false"},
		{"kv.set", []any{"key", "k", "value", "v2", "ifeq", "v0"}, "false"},
		{"kv.set", []any{"key", "k", "value", "v2", "ifeq", "v1", "get", true}, "[true v1]"},
		{"kv.set", []any{"key", "other", "value", "", "get", true}, "[true <nil>]"},
		{"kv.get", []any{"key", "other"}, ""},
		{"kv.mget", []any{"keys", [][]byte{[]byte("k"), []byte("missing"), []byte("other")}}, "[v2 <nil> ]"},
		{"kv.mget", []any{"keys", [][]byte{}}, "[]"},
		{"kv.setnx", []any{"key", "k", "value", "x"}, "false"},
		{"kv.setnx", []any{"key", "fresh", "value", "x", "ttl_ms", 60_000}, "true"},
		{"kv.exists", []any{"key", "k"}, "1"},
		{"kv.exists", []any{"keys", [][]byte{[]byte("k"), []byte("missing"), []byte("k")}}, "2"},
		{"kv.strlen", []any{"key", "k"}, "2"},
		{"kv.strlen", []any{"key", "missing"}, "0"},
		{"kv.ttl", []any{"key", "k"}, "-1"},
		{"kv.ttl", []any{"key", "missing"}, "-2"},
		{"kv.expire", []any{"key", "k", "ttl_ms", 0}, "false"},
		{"kv.expire", []any{"key", "k"}, "false"},
		{"kv.expire", []any{"key", "missing", "ttl_ms", 9}, "false"},
		{"kv.expire", []any{"key", "k", "ttl_ms", 60_000}, "true"},
		{"kv.persist", []any{"key", "k"}, "true"},
		{"kv.persist", []any{"key", "k"}, "false"},
		{"kv.expire_if_eq", []any{"key", "k", "value", "no", "ttl_ms", 60_000}, "false"},
		{"kv.expire_if_eq", []any{"key", "k", "value", "v2", "ttl_ms", 60_000}, "true"},
		{"kv.append", []any{"key", "k", "value", "+"}, "3"},
		{"kv.set", []any{"key", "k", "value", "v3", "keepttl", true}, "true"},
		{"kv.del_if_eq", []any{"key", "k", "value", "v2"}, "false"},
		{"kv.del_if_eq", []any{"key", "k", "value", "v3"}, "true"},
		{"kv.getdel", []any{"key", "other"}, ""},
		{"kv.getdel", []any{"key", "other"}, "<nil>"},
		{"kv.incr_by", []any{"key", "n"}, "1"},
		{"kv.incr_by", []any{"key", "n", "delta", 0}, "1"},
		{"kv.incr_by", []any{"key", "n", "delta", -5, "floor", 0}, "0"},
		{"kv.incr_by", []any{"key", "none", "missing", "fail"}, "<nil>"},
		{"kv.incr_by", []any{"key", "timed", "ttl_ms", 60_000, "missing", "create"}, "1"},
		{"kv.del", []any{"key", "n"}, "1"},
		{"kv.del", []any{"keys", [][]byte{[]byte("timed"), []byte("n"), []byte("fresh")}}, "2"},
		{"kv.set", []any{"key", "k", "value", "here"}, "true"},
		{"kv.set", []any{"key", "k", "value", "there", "bucket", "b"}, "true"},
		{"kv.get", []any{"key", "k"}, "here"},
		{"kv.get", []any{"key", "k", "bucket", "b"}, "there"},
		{"kv.scan", []any{}, "[0 [k]]"},
		{"kv.scan", []any{"prefix", "x"}, "[0 []]"},
		{"kv.flush", []any{"bucket", "b"}, "true"},
		{"kv.get", []any{"key", "k", "bucket", "b"}, "<nil>"},
		{"kv.get", []any{"key", "k"}, "here"},
	} {
		if got := show(v.ask(c.method, c.params...)); got != c.want {
			t.Errorf("%d: %s %v is %s, want %s", i, c.method, c.params, got, c.want)
		}
	}
	v.ask("kv.set", "key", "t", "value", "x", "ttl_ms", 60_000)
	if left := v.ask("kv.ttl", "key", "t").(int64); left <= 0 || left > 60_000 {
		t.Errorf("kv.ttl is %d", left)
	}
}

func TestMisuseIsAProtocolErrorAndTheConnectionStays(t *testing.T) {
	v := open(t, nil).visit()
	for _, c := range []struct {
		method string
		params []any
	}{
		{"no.such", nil},
		{"kv.get", nil},
		{"kv.get", []any{"key", "k", "ttl", 5}},
		{"kv.get", []any{"key", 5}},
		{"kv.set", []any{"key", "k"}},
		{"kv.set", []any{"value", "v"}},
		{"kv.set", []any{"key", "k", "value", "v", "nx", true, "xx", true}},
		{"kv.set", []any{"key", "k", "value", "v", "nx", true, "ifeq", ""}},
		{"kv.set", []any{"key", "k", "value", "v", "keepttl", true, "ttl_ms", 5}},
		{"kv.setnx", []any{"key", "k"}},
		{"kv.del", nil},
		{"kv.del_if_eq", []any{"key", "k"}},
		{"kv.exists", nil},
		{"kv.expire_if_eq", []any{"key", "k", "ttl_ms", 5}},
		{"kv.incr_by", []any{"key", "k", "missing", "maybe"}},
		{"kv.wait", nil},
		{"kv.ttl", nil},
		{"kv.append", []any{"value", "x"}},
		{"lock.acquire", []any{"name", "l"}},
		{"lock.acquire", []any{"token", "t"}},
		{"lock.renew", []any{"name", "l"}},
		{"lock.release", []any{"name", "l"}},
		{"lock.info", nil},
		{"lock.force_release", nil},
		{"session.open", []any{"id", "x", "policy", "whatever"}},
		{"session.commit", []any{"id", "x", "ttl_ms", 5}},
		{"session.commit", []any{"id", "x", "ttl_ms", 5, "data", "", "touch", true}},
		{"session.commit", []any{"id", "x", "data", ""}},
		{"session.commit", []any{"id", "x", "data", "", "ttl_ms", 0}},
		{"session.release", []any{"id", "x"}},
		{"hello", []any{"version", 2}},
		{"hello", nil},
	} {
		v.fails(wire.Protocol, "", c.method, c.params...)
	}
	if v.ask("server.ping") != true {
		t.Error("the connection did not stay")
	}
}

func TestRefusedValues(t *testing.T) {
	v := open(t, nil).visit()
	v.ask("kv.set", "key", "word", "value", "abc")
	v.ask("kv.set", "key", "big", "value", "9223372036854775807")
	v.fails(wire.Refused, "not_integer", "kv.incr_by", "key", "word")
	v.fails(wire.Refused, "overflow", "kv.incr_by", "key", "big")
	v.ask("kv.set", "key", "long", "value", make([]byte, 1<<20-100))
	e := v.fails(wire.TooLarge, "", "kv.append", "key", "long", "value", make([]byte, 101))
	if e != nil && (show(detail(e, "size")) != "1048577" || show(detail(e, "limit")) != "1048576") {
		t.Errorf("its details are %v", e.Details)
	}
	v.ask("kv.set", "key", "long2", "value", make([]byte, 1<<20-100))
	v.fails(wire.TooLarge, "", "kv.mget", "keys", [][]byte{[]byte("long"), []byte("long2")})
}

func TestSessions(t *testing.T) {
	v := open(t, nil).visit()
	o := v.ask("session.open", "id", "abc", "token", "t1", "script", "/a.php")
	if show(field(t, o, "data")) != "" || field(t, o, "found") != false || field(t, o, "locked") != true {
		t.Fatalf("the first open: %v", o)
	}
	fence := field(t, o, "fence")
	if v.ask("session.exists", "id", "abc") != false {
		t.Error("it exists before it was written")
	}
	c := v.ask("session.commit", "id", "abc", "token", "t1", "fence", fence, "touch", true, "ttl_ms", 60_000, "release", true)
	if field(t, c, "stored") != false || field(t, c, "released") != false {
		t.Errorf("a touch of nothing: %v", c)
	}
	c = v.ask("session.commit", "id", "abc", "token", "t1", "fence", fence, "data", "a\x00b", "ttl_ms", 60_000, "release", true)
	if field(t, c, "stored") != true || field(t, c, "released") != true {
		t.Errorf("the commit: %v", c)
	}
	if v.ask("session.exists", "id", "abc") != true || v.ask("session.exists", "id", "abc", "prefix", "p") != false {
		t.Error("exists")
	}
	r := v.ask("session.open", "id", "abc")
	if show(field(t, r, "data")) != "a\x00b" || field(t, r, "found") != true || field(t, r, "locked") != false {
		t.Errorf("an open without a lock: %v", r)
	}
	v.ask("session.open", "id", "abc", "token", "t2", "lease_ms", 60_000)
	v.fails(wire.Refused, "superseded", "session.commit", "id", "abc", "token", "t1", "fence", fence, "data", "x", "ttl_ms", 5)
	if v.ask("session.release", "id", "abc", "token", "t1") != false || v.ask("session.release", "id", "abc", "token", "t2") != true {
		t.Error("release")
	}
	if v.ask("session.destroy", "id", "abc") != true || v.ask("session.destroy", "id", "abc") != false {
		t.Error("destroy")
	}
	v.fails(wire.Refused, "destroyed", "session.commit", "id", "abc", "fence", field(t, r, "fence"), "data", "x", "ttl_ms", 5)
	n := v.ask("session.open", "id", "abc", "token", "t3")
	if field(t, n, "found") != false || field(t, n, "locked") != true {
		t.Errorf("a new life: %v", n)
	}
}

func TestWrongIDsAreRefused(t *testing.T) {
	v := open(t, nil).visit()
	for _, id := range []string{"", "a/b", "a.b", "a:b", "a b", "a%b", "a\x00b", "é", strings.Repeat("a", 257), strings.Repeat("a", 5000)} {
		v.fails(wire.Refused, "invalid_id", "session.open", "id", id, "token", "t")
		v.fails(wire.Refused, "invalid_id", "session.commit", "id", id, "data", "", "ttl_ms", 5)
		v.fails(wire.Refused, "invalid_id", "session.release", "id", id, "token", "t")
		v.fails(wire.Refused, "invalid_id", "session.destroy", "id", id)
		v.fails(wire.Refused, "invalid_id", "session.exists", "id", id)
	}
	for _, id := range []string{"a", "A-Z,09", strings.Repeat("a", 256)} {
		v.ask("session.open", "id", id, "token", "t")
	}
}

func TestContendedSession(t *testing.T) {
	h := open(t, nil)
	a, b := h.visit(), h.visit()
	a.ask("session.open", "id", "abc", "token", "ta", "script", "/holder.php")
	for _, wait := range []int{0, 20} {
		e := b.fails(wire.Busy, "wait_over", "session.open", "id", "abc", "token", "tb", "wait_ms", wait)
		if e == nil {
			continue
		}
		holder := detail(e, "holder")
		if show(field(t, holder, "script")) != "/holder.php" || field(t, holder, "sapi") != "test/1" || field(t, holder, "held_ms") == nil || field(t, holder, "fence") == nil {
			t.Errorf("the holder is %v", holder)
		}
		if waited := detail(e, "waited_ms").(int64); waited < int64(wait) || detail(e, "waiters") != int64(0) {
			t.Errorf("waited %d of %d ms, %v others", waited, wait, detail(e, "waiters"))
		}
		for _, policy := range []string{"unlocked", "readonly"} {
			o := b.ask("session.open", "id", "abc", "token", "tb", "wait_ms", wait, "policy", policy)
			if field(t, o, "locked") != false || show(field(t, field(t, o, "holder"), "script")) != "/holder.php" {
				t.Errorf("policy %s: %v", policy, o)
			}
		}
	}
}

func TestHolderHasThePIDThatTheKernelTells(t *testing.T) {
	h := open(t, nil)
	r := h.raw()
	r.send(wire.AppendRequest(nil, 1, "hello", p("version", 1, "client", "liar/1", "pid", 1, "sapi", "fpm-fcgi")),
		wire.AppendRequest(nil, 2, "lock.acquire", p("name", "l", "token", "t")))
	r.next()
	r.next()
	info := h.visit().ask("lock.info", "name", "l")
	holders := field(t, info, "holders").([]any)
	if pid := field(t, holders[0], "pid"); pid != int64(os.Getpid()) || field(t, holders[0], "sapi") != "fpm-fcgi" {
		t.Errorf("the holder is %v, want pid %d", holders[0], os.Getpid())
	}
}

func TestLocks(t *testing.T) {
	h := open(t, nil)
	a, b := h.visit(), h.visit()
	fence := field(t, a.ask("lock.acquire", "name", "l", "token", "ta", "lease_ms", 60_000), "fence")
	e := b.fails(wire.Busy, "wait_over", "lock.acquire", "name", "l", "token", "tb")
	if e != nil && detail(e, "holder") == nil {
		t.Error("busy does not name the holder")
	}
	if again := field(t, a.ask("lock.acquire", "name", "l", "token", "ta"), "fence"); again != fence {
		t.Errorf("the same token again has fence %v, not %v", again, fence)
	}
	if r := field(t, a.ask("lock.renew", "name", "l", "token", "ta", "lease_ms", 9), "fence"); r != fence {
		t.Errorf("a renewal has fence %v, not %v", r, fence)
	}
	a.ask("lock.renew", "name", "l", "token", "ta")
	b.fails(wire.Refused, "not_holder", "lock.renew", "name", "l", "token", "tb")
	info := b.ask("lock.info", "name", "l", "token", "ta")
	if field(t, info, "owned") != true || field(t, info, "shared") != false || len(field(t, info, "holders").([]any)) != 1 {
		t.Errorf("lock.info: %v", info)
	}
	if list := b.ask("lock.list").([]any); len(list) != 1 || show(field(t, list[0], "name")) != "l" {
		t.Errorf("lock.list: %v", list)
	}
	if list := b.ask("lock.list", "prefix", "x").([]any); len(list) != 0 {
		t.Errorf("lock.list of another prefix: %v", list)
	}
	if b.ask("lock.release", "name", "l", "token", "tb") != false || b.ask("lock.release", "name", "l", "token", "ta") != true {
		t.Error("release: by its token alone, from anywhere")
	}
	if b.ask("lock.info", "name", "l") != nil {
		t.Error("lock.info of a free lock")
	}
	a.ask("lock.acquire", "name", "l", "token", "s1", "shared", true)
	b.ask("lock.acquire", "name", "l", "token", "s2", "shared", true)
	if b.ask("lock.force_release", "name", "l") != true || b.ask("lock.force_release", "name", "l") != false {
		t.Error("force_release")
	}
	a.ask("lock.acquire", "name", "l", "bucket", "other", "token", "x")
	b.ask("lock.acquire", "name", "l", "token", "y")
}

func TestFullQueueIsToldAtOnce(t *testing.T) {
	h := open(t, func(_ *Config, l *locker.Config) { l.MaxWaiters = 1 })
	a, waiting := h.visit(), h.greeted()
	a.ask("session.open", "id", "abc", "token", "ta", "script", "/holder.php")
	waiting.send(wire.AppendRequest(nil, 2, "session.open", p("id", "abc", "token", "tb", "wait_ms", 60_000)))
	until(t, "somebody waits", func() bool { return h.l.Waiting() == 1 })
	began := time.Now()
	e := a.fails(wire.Busy, "queue_full", "session.open", "id", "abc", "token", "tc", "wait_ms", 60_000)
	if time.Since(began) > 10*time.Second {
		t.Error("it waited")
	}
	if e != nil && (detail(e, "waiters") != int64(1) || detail(e, "holder") == nil || !strings.Contains(e.Message, "lock.max_waiters")) {
		t.Errorf("%s, %v", e.Message, e.Details)
	}
}

func TestKVWait(t *testing.T) {
	h := open(t, nil)
	a, b := h.visit(), h.visit()
	w := a.ask("kv.wait", "key", "k", "version", 0, "timeout_ms", 60_000)
	if field(t, w, "value") != nil {
		t.Fatalf("of a missing key: %v", w)
	}
	version := field(t, w, "version")
	if got := a.ask("kv.wait", "key", "k", "version", version, "timeout_ms", 5); got != nil {
		t.Errorf("when nothing happened: %v", got)
	}
	if got := a.ask("kv.wait", "key", "k", "version", version); got != nil {
		t.Errorf("when nothing happened, without a wait: %v", got)
	}
	r := h.greeted()
	r.send(wire.AppendRequest(nil, 2, "kv.wait", p("key", "k", "version", version, "timeout_ms", 60_000)))
	r.send(wire.AppendRequest(nil, 3, "server.ping", nil))
	if id, _, err := r.next(); err != nil || id != 3 {
		t.Fatalf("the request behind a wait: answer to %d, %v", id, err)
	}
	b.ask("kv.set", "key", "k", "value", "v")
	id, got, err := r.next()
	if err != nil || id != 2 || show(field(t, got, "value")) != "v" {
		t.Errorf("after a write: %d, %v, %v", id, got, err)
	}
}

func TestOperatorsLists(t *testing.T) {
	h := open(t, nil)
	v := h.visit()
	v.ask("session.open", "id", "secretsessionid", "token", "secrettoken")
	v.ask("session.commit", "id", "anothersession", "data", "12345", "ttl_ms", 60_000)
	v.ask("lock.acquire", "name", "a-lock", "token", "secrettoken", "lease_ms", 5000)
	locks, sessions := v.ask("server.locks").([]any), v.ask("server.sessions").([]any)
	if len(locks) != 2 || len(sessions) != 1 {
		t.Errorf("%d locks, %d sessions", len(locks), len(sessions))
	}
	for _, list := range [][]any{locks, sessions} {
		for _, row := range list {
			if text := show(row); strings.Contains(text, "secretsess") || strings.Contains(text, "secrettok") || strings.Contains(text, "anothers") {
				t.Errorf("a credential is shown in full: %s", text)
			}
		}
	}
	if list := v.ask("server.sessions", "id", "anothe").([]any); len(list) != 1 {
		t.Errorf("by its beginning: %v", list)
	}
	if list := v.ask("server.sessions", "id", "anothers").([]any); len(list) != 0 {
		t.Errorf("by more than is shown, but not the whole: %v", list)
	}
	if v.ask("session.force_release", "id", "secretsessionid") != true {
		t.Error("force_release by the whole id")
	}
	v.ask("session.open", "id", "secretsessionid", "token", "t2")
	v.ask("session.open", "id", "secretsomething", "token", "t3")
	v.fails(wire.Refused, "ambiguous", "session.force_release", "id", "secret")
	if v.ask("session.force_release", "id", "secretsession") != false {
		t.Error("force_release by more than is shown, but not the whole")
	}
	if field(t, v.ask("server.status"), "version") != "test" {
		t.Error("server.status")
	}
}
