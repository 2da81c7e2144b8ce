package tenants

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/coatcheck/coatcheck/sidecar/wire"
	"github.com/coatcheck/coatcheck/tests/tenants/daemon"
)

// write opens a session and commits data under it. It returns the error of the commit, with which the lock is released too.
func write(t *testing.T, c *daemon.Client, id string, data []byte) error {
	t.Helper()
	opened, err := c.Call(t.Context(), "session.open", daemon.P("id", id, "token", "t"))
	if err != nil {
		return err
	}
	_, err = c.Call(t.Context(), "session.commit", daemon.P("id", id, "token", "t", "fence", daemon.Field(t, opened, "fence"),
		"data", data, "ttl_ms", 600_000, "release", true))
	return err
}

// TestEqualNamesDoNotMeet: the same session, lock and key, at the same time, in both.
func TestEqualNamesDoNotMeet(t *testing.T) {
	d := open(t, "", "", "")
	clients := map[string]*daemon.Client{"a": d.Dial("a"), "b": d.Dial("b"), "s": d.Dial("s")}
	for name, c := range clients {
		if err := write(t, c, "same", []byte("of "+name)); err != nil {
			t.Fatal(err)
		}
		if o := c.Ask("session.open", "id", "same", "token", "held"); daemon.Field(t, o, "locked") != true {
			t.Errorf("%s: the session is locked by another tenant: %v", name, o)
		}
		c.Ask("lock.acquire", "name", "same", "token", name, "bound", true)
		c.Ask("kv.set", "key", "same", "value", name)
	}
	for name, c := range clients {
		if o := c.Ask("session.open", "id", "same"); string(daemon.Field(t, o, "data").([]byte)) != "of "+name {
			t.Errorf("%s reads %v", name, o)
		}
		if v := c.Ask("kv.get", "key", "same"); string(v.([]byte)) != name {
			t.Errorf("%s reads %s", name, v)
		}
		c.Fails(wire.Busy, "wait_over", "lock.acquire", "name", "same", "token", "other")
	}
	if clients["a"].Ask("lock.release", "name", "same", "token", "b") != false {
		t.Error("a token of b released a lock of a")
	}
	clients["b"].Ask("session.destroy", "id", "same")
	if clients["a"].Ask("session.exists", "id", "same") != true {
		t.Error("b destroyed a session of a")
	}
	clients["b"].Ask("kv.flush")
	if clients["a"].Ask("kv.exists", "key", "same") != int64(1) || clients["b"].Ask("kv.exists", "key", "same") != int64(0) {
		t.Error("a flush of b flushed a, or not b")
	}
}

// TestListsShowTheAskingTenantAlone, and operators, who ask over HTTP, see whose each line is.
func TestListsShowTheAskingTenantAlone(t *testing.T) {
	d := open(t, "", "", "")
	a, b := d.Dial("a"), d.Dial("b")
	for i := range 3 {
		id := fmt.Sprint("session", i)
		if err := write(t, a, id, []byte("x")); err != nil {
			t.Fatal(err)
		}
		a.Ask("session.open", "id", id, "token", "t")
		a.Ask("lock.acquire", "name", fmt.Sprint("lock", i), "token", "t")
		a.Ask("kv.set", "key", fmt.Sprint("key", i), "value", "v")
	}
	b.Ask("lock.acquire", "name", "of-b", "token", "t")
	for method, want := range map[string][2]int{"server.locks": {6, 1}, "server.sessions": {3, 0}, "lock.list": {3, 1}} {
		if got := [2]int{len(a.Ask(method).([]any)), len(b.Ask(method).([]any))}; got != want {
			t.Errorf("%s lists %v, want %v", method, got, want)
		}
	}
	if scan := b.Ask("kv.scan").([]any); len(scan[1].([]any)) != 0 {
		t.Errorf("b scans %v", scan)
	}
	for name, want := range map[string]int64{"sessions": 0, "values": 0, "locks": 1, "connections": 1} {
		if got := daemon.Field(t, b.Ask("server.status"), name); got != want {
			t.Errorf("the status of b: %s is %v, want %d", name, got, want)
		}
	}
	if b.Ask("session.force_release", "id", "session0") != false || b.Ask("session.force_release", "id", "sessio") != false ||
		b.Ask("lock.force_release", "name", "lock0") != false || a.Ask("lock.force_release", "name", "lock0") != true {
		t.Error("a force-release reaches another tenant, or not the own one")
	}
	locks := d.Page("/v1/locks")
	if strings.Count(locks, `"tenant":"a"`) != 5 || strings.Count(locks, `"tenant":"b"`) != 1 {
		t.Errorf("operators see %s", locks)
	}
	if sessions := d.Page("/v1/sessions"); strings.Count(sessions, `"tenant":"a"`) != 3 {
		t.Errorf("operators see %s", sessions)
	}
	if status := d.Page("/v1/status"); !strings.Contains(status, `"tenants":[{"tenant":"a",`) || !strings.Contains(status, `"locks":6`) {
		t.Errorf("operators see %s", status)
	}
}

// TestRedisUsersSeeTheirTenantAlone, which is that of the socket of the same tenant.
func TestRedisUsersSeeTheirTenantAlone(t *testing.T) {
	d := open(t, "", "", "")
	a, b := d.Redis("a"), d.Redis("b")
	a.Do("MSET", "k1", "v1", "k2", "v2")
	a.Do("SELECT", "3")
	a.Do("SET", "k3", "v3")
	d.Dial("b").Ask("kv.set", "key", "own", "value", "of the socket")
	for _, c := range []struct {
		command string
		want    string
	}{
		{"GET k1", "$-1"}, {"DBSIZE", ":1"}, {"KEYS *", "[own]"}, {"SCAN 0", "[0 [own]]"}, {"RANDOMKEY", "own"},
		{"GET own", "of the socket"}, {"DEL k1 k2", ":0"}, {"FLUSHALL", "+OK"}, {"DBSIZE", ":0"},
	} {
		if got := b.Do(strings.Fields(c.command)...); got != c.want {
			t.Errorf("%s: %s, want %s", c.command, got, c.want)
		}
	}
	if info := b.Do("INFO"); !strings.Contains(info, "used_memory:0\r\n") || !strings.Contains(info, "connected_clients:2\r\n") || strings.Contains(info, "db0:") {
		t.Errorf("INFO of b tells of others: %s", info)
	}
	if got := a.Do("GET", "k3"); got != "v3" {
		t.Errorf("b flushed a: %s", got)
	}
	if v := d.Dial("a").Ask("kv.get", "key", "k3", "bucket", "3"); string(v.([]byte)) != "v3" {
		t.Errorf("the socket of a reads %s", v)
	}
	if reply := d.Redis("").Do("GET", "k3"); !strings.HasPrefix(reply, "-NOAUTH") {
		t.Errorf("nobody reads %s", reply)
	}
}

// noise is data that does not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

// TestAFullTenantRefusesItselfAlone, and evicts its own cache alone.
func TestAFullTenantRefusesItselfAlone(t *testing.T) {
	d := open(t, "", "memory_limit = '1MiB'", "")
	a, b, redis := d.Dial("a"), d.Dial("b"), d.Redis("a")
	const kept = 50
	for i := range kept {
		b.Ask("kv.set", "key", fmt.Sprint("k", i), "value", noise(10_000))
	}
	for i := range 1000 {
		a.Ask("kv.set", "key", fmt.Sprint("k", i), "value", noise(10_000))
	}
	if n := daemon.Field(t, a.Ask("server.status"), "evicted"); n.(int64) < 800 {
		t.Errorf("a evicted %v of its 1000 values", n)
	}
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		err = write(t, a, fmt.Sprint("id", i), noise(10_000))
	}
	e := daemon.Refused(t, "the sessions of a", err, wire.Refused, "full")
	if !strings.Contains(e.Message, "the tenant's memory_limit") {
		t.Errorf("the message does not say whose limit it is: %s", e.Message)
	}
	if reply := redis.Do("SET", "k", string(noise(20_000))); !strings.HasPrefix(reply, "-OOM") || !strings.Contains(reply, "the tenant's memory_limit") {
		t.Errorf("over the Redis protocol: %.200s", reply)
	}
	if reply := redis.Do("CONFIG", "GET", "maxmemory"); reply != "[maxmemory 1048576]" {
		t.Errorf("a is told %s", reply)
	}
	if err := write(t, b, "id", noise(100_000)); err != nil {
		t.Errorf("b is refused too: %v", err)
	}
	if s := b.Ask("server.status"); daemon.Field(t, s, "values") != int64(kept) || daemon.Field(t, s, "evicted") != int64(0) {
		t.Errorf("values of b were evicted: %v", s)
	}
	if n := d.Metric(`coatcheck_tenant_memory_bytes{tenant="a"}`); n <= 0 || n > 1<<20 {
		t.Errorf("a takes %v bytes", n)
	}
}

// TestTheLargestTenantMakesRoom where all share one limit.
func TestTheLargestTenantMakesRoom(t *testing.T) {
	d := open(t, "memory.limit = '4MiB'", "", "")
	a, b := d.Dial("a"), d.Dial("b")
	for i := range 20 {
		b.Ask("kv.set", "key", fmt.Sprint("k", i), "value", noise(10_000))
	}
	for i := range 1000 {
		a.Ask("kv.set", "key", fmt.Sprint("k", i), "value", noise(10_000))
	}
	if s := b.Ask("server.status"); daemon.Field(t, s, "values") != int64(20) {
		t.Errorf("a evicted values of b: %v", s)
	}
	d.Says("a tenant without a memory limit can fill the memory of all")
}
