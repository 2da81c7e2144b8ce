package tenants

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/client"
	"github.com/coatcheck/coatcheck/sidecar/wire"
	"github.com/coatcheck/coatcheck/tests/tenants/daemon"
)

// visit names the socket that the test binary connects to when it is run as another user.
const visit = "COATCHECK_TEST_VISIT"

// visitor connects to a socket and says what came of it.
func visitor(socket string) int {
	c, err := client.Dial(context.Background(), socket, "visitor")
	if err != nil {
		fmt.Print(err)
		return 1
	}
	c.Close()
	fmt.Print("welcome")
	return 0
}

func TestOnlyAllowedUsersConnect(t *testing.T) {
	me := os.Getuid()
	d := open(t, "", fmt.Sprintf("allowed_uids = [%d, 54321]", me+1), fmt.Sprintf("allowed_uids = [%d]\nmode = '0666'", me))
	for range 20 {
		_, err := d.TryDial("a")
		e := daemon.Refused(t, "a stranger", err, wire.Refused, "uid")
		if daemon.Detail(e, "uid") != int64(me) || daemon.Detail(e, "setting") != "tenants.a.allowed_uids" || !strings.Contains(e.Message, fmt.Sprint(me)) {
			t.Fatalf("the error names %v: %s", e.Details, e.Message)
		}
	}
	d.Dial("b").Ask("server.ping")
	d.Says("connection refused: the user is not allowed")
	if n := strings.Count(d.Log(), "the user is not allowed"); n > 3 {
		t.Errorf("20 refusals made %d lines", n)
	}
	if n := d.Metric(`coatcheck_tenant_refused_total{reason="uid",tenant="a"}`); n != 20 {
		t.Errorf("the metric counts %v refusals, want 20", n)
	}
	if me != 0 {
		t.Skip("only root can come as another user")
	}
	for socket, want := range map[string]string{"a": "", "b": "the user with number 54321 may not use this socket (tenants.b.allowed_uids)"} {
		if err := os.Chmod(d.Path(socket), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		test := filepath.Join(d.Dir, "visitor") // go test's own directory may be closed to others
		if err := os.Link(os.Args[0], test); err != nil && !errors.Is(err, os.ErrExist) {
			copyFile(t, os.Args[0], test)
		}
		cmd := exec.Command(test)
		cmd.Env = append(os.Environ(), visit+"="+d.Path(socket))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
		out, err := cmd.CombinedOutput()
		if want == "" && (err != nil || string(out) != "welcome") || want != "" && !strings.Contains(string(out), want) {
			t.Errorf("user 54321 at %s: %v, %s; want %q", socket, err, out, want)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestConnectionsOfATenantAreBounded by both protocols together, and those of another are not touched.
func TestConnectionsOfATenantAreBounded(t *testing.T) {
	d := open(t, "", "connections = 3", "")
	first := d.Dial("a")
	d.Dial("a").Ask("server.ping")
	d.Redis("a").Do("PING")
	_, err := d.TryDial("a")
	e := daemon.Refused(t, "the fourth", err, wire.Unavailable, "connections")
	if want := "3 connections of tenant a are open, which is the limit (tenants.a.connections)"; e.Message != want {
		t.Errorf("it is told %q, want %q", e.Message, want)
	}
	if reply := d.Redis("").Do("AUTH", "a", "a"); reply != "-ERR max number of clients reached of tenant a: 3 (tenants.a.connections)" {
		t.Errorf("over the Redis protocol it is told %q", reply)
	}
	d.Dial("b").Ask("server.ping")
	d.Redis("b").Do("PING")
	d.Says("connection refused: the tenant has too many")
	if n := d.Metric(`coatcheck_tenant_refused_total{reason="connections",tenant="a"}`); n != 2 {
		t.Errorf("the metric counts %v refusals, want 2", n)
	}
	first.Close()
	daemon.Until(t, "there is room again", func() bool { return d.Metric(`coatcheck_tenant_connections{tenant="a"}`) == 2 })
	d.Dial("a").Ask("server.ping")
}

// exhaust asks until the tenant asks too often, and returns the refusal.
func exhaust(t *testing.T, c *daemon.Client) *wire.Error {
	t.Helper()
	for range 10_000 {
		if _, err := c.Call(t.Context(), "kv.get", daemon.P("key", "k")); err != nil {
			return daemon.Refused(t, "one too many", err, wire.Refused, "rate")
		}
	}
	t.Fatal("10,000 requests were served")
	return nil
}

// TestTheRateIsBoundedAndWhatEndsSomethingIsNot.
func TestTheRateIsBoundedAndWhatEndsSomethingIsNot(t *testing.T) {
	d := open(t, "", "requests_per_second = 50", "")
	a, b, redis := d.Dial("a"), d.Dial("b"), d.Redis("a")
	opened := a.Ask("session.open", "id", "held", "token", "t")
	a.Ask("lock.acquire", "name", "held", "token", "t", "lease_ms", 60_000)
	redis.Do("SET", "held", "token")
	for _, key := range []string{"kept", "given back"} {
		a.Ask("kv.set", "key", key, "value", "token", "nx", true, "ttl_ms", 60_000)
	}
	e := exhaust(t, a)
	wait, _ := daemon.Detail(e, "retry_after_ms").(int64)
	if wait < 1 || wait > 1000 || daemon.Detail(e, "setting") != "tenants.a.requests_per_second" ||
		!strings.Contains(e.Message, fmt.Sprintf("in %d ms", wait)) {
		t.Errorf("the refusal is %v: %s", e.Details, e.Message)
	}
	for range 100 { // what was begun can be ended, however often that is
		a.Ask("lock.renew", "name", "held", "token", "t", "lease_ms", 60_000)
		if renewed := a.Ask("kv.expire_if_eq", "key", "kept", "value", "token", "ttl_ms", 60_000); renewed != true {
			t.Fatal("a lock that is a value is not renewed")
		}
	}
	if released := a.Ask("kv.del_if_eq", "key", "given back", "value", "token"); released != true {
		t.Error("a lock that is a value is not released")
	}
	a.Fails(wire.Refused, "rate", "session.commit", "id", "unlocked", "data", "x", "ttl_ms", 60_000) // no lock, nothing to give back
	a.Fails(wire.Refused, "rate", "kv.del", "key", "kept")
	a.Fails(wire.Refused, "rate", "kv.expire", "key", "kept", "ttl_ms", 60_000)
	a.Fails(wire.Refused, "rate", "session.open", "id", "other", "token", "t")
	a.Fails(wire.Refused, "rate", "server.locks")
	a.Ask("session.commit", "id", "held", "token", "t", "fence", daemon.Field(t, opened, "fence"), "data", "kept", "ttl_ms", 60_000, "release", true)
	a.Ask("session.release", "id", "held", "token", "t")
	a.Ask("lock.release", "name", "held", "token", "t")
	d.Dial("a")
	if reply := redis.Do("GET", "held"); !strings.HasPrefix(reply, "-THROTTLED more than 50 requests a second (tenants.a.requests_per_second); the next is served in ") {
		t.Errorf("over the Redis protocol: %s", reply)
	}
	if reply := redis.Do("DELIFEQ", "held", "token"); reply != ":1" {
		t.Errorf("the lock of the Redis protocol is kept: %s", reply)
	}
	b.Ask("kv.get", "key", "k") // nobody else is refused
	d.Says("request refused: the tenant asks too often")
	if n := strings.Count(d.Log(), "asks too often"); n > 2 {
		t.Errorf("the log has %d lines of it", n)
	}
	var o any
	daemon.Until(t, "the time that was told is up", func() (served bool) {
		var err error
		o, err = a.Call(t.Context(), "session.open", daemon.P("id", "held"))
		return err == nil
	})
	if string(daemon.Field(t, o, "data").([]byte)) != "kept" {
		t.Errorf("the commit is lost: %v", o)
	}
}

// TestWaitersOfATenantAreBounded: the next one is told busy at once, and told apart from a lock whose queue is full.
func TestWaitersOfATenantAreBounded(t *testing.T) {
	d := open(t, "", "waiters = 2", "")
	for _, tenant := range []string{"a", "b"} {
		d.Dial(tenant).Ask("session.open", "id", "held", "token", "holder")
	}
	ended := make(chan error, 3)
	wait := func(tenant, method string, params ...any) {
		c := d.Dial(tenant)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), daemon.Patience)
			defer cancel()
			_, err := c.Call(ctx, method, daemon.P(params...))
			ended <- err
		}()
	}
	wait("a", "session.open", "id", "held", "token", "w", "wait_ms", 60_000)
	version := daemon.Field(t, d.Dial("a").Ask("kv.wait", "key", "k"), "version")
	wait("a", "kv.wait", "key", "k", "version", version, "timeout_ms", 60_000)
	waiting := func(tenant string, n float64) {
		daemon.Until(t, "they wait", func() bool { return d.Metric(fmt.Sprintf("coatcheck_tenant_waiters{tenant=%q}", tenant)) == n })
	}
	waiting("a", 2)
	c := d.Dial("a")
	began := time.Now()
	e := c.Fails(wire.Busy, "waiters", "session.open", "id", "held", "token", "x", "wait_ms", 60_000)
	if want := "another holds the lock, and 2 requests of tenant a wait already, which is the limit (tenants.a.waiters)"; e.Message != want {
		t.Errorf("it is told %q, want %q", e.Message, want)
	}
	if daemon.Detail(e, "holder") == nil || time.Since(began) > 10*time.Second {
		t.Errorf("after %v, without the holder: %v", time.Since(began), e.Details)
	}
	if o := c.Ask("session.open", "id", "held", "token", "x", "wait_ms", 60_000, "policy", "unlocked"); daemon.Field(t, o, "locked") != false {
		t.Errorf("it has the lock: %v", o)
	}
	c.Fails(wire.Refused, "waiters", "kv.wait", "key", "k", "version", version, "timeout_ms", 60_000)
	c.Ask("lock.acquire", "name", "free", "token", "x", "wait_ms", 60_000) // nobody needs to wait
	wait("b", "session.open", "id", "held", "token", "w", "wait_ms", 60_000)
	waiting("b", 1)
	d.Dial("a").Ask("session.force_release", "id", "held")
	d.Dial("b").Ask("session.force_release", "id", "held")
	d.Dial("a").Ask("kv.set", "key", "k", "value", "v")
	for range 3 {
		if err := <-ended; err != nil {
			t.Errorf("a wait ended with %v", err)
		}
	}
	waiting("a", 0)
}

// TestSocketFilesOfTenants have their mode and owner, and go with the daemon.
func TestSocketFilesOfTenants(t *testing.T) {
	owner := os.Getuid()
	if owner == 0 {
		owner = 54321
	}
	d := open(t, "", "mode = '0600'", fmt.Sprintf("mode = '0606'\nowner = '%d'", owner))
	for socket, want := range map[string]os.FileMode{"a": 0o600, "b": 0o606} {
		info, err := os.Stat(d.Path(socket))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s is %v, %v; want mode %o", socket, info, err, want)
		}
	}
	if info, err := os.Stat(d.Path("b")); err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != owner {
		t.Errorf("b belongs to %v, want %d", info, owner)
	}
	d.Stop()
	for _, socket := range []string{"s", "a", "b"} {
		if _, err := os.Lstat(d.Path(socket)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there", socket)
		}
	}
}

// TestOnlyRootGivesASocketAway: any other daemon says so and ends.
func TestOnlyRootGivesASocketAway(t *testing.T) {
	uid := uint32(os.Getuid())
	d := daemon.Place(t)
	if uid == 0 {
		uid = 54321
		if err := os.Chown(d.Dir, int(uid), int(uid)); err != nil {
			t.Fatal(err)
		}
	}
	d.Launch("[tenants.a]\nsocket = 'DIR/a'\nowner = '12345'\n", uid)
	if code := d.Ends(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	for _, part := range []string{"tenant a: socket ", "user 12345 shall own it", "only root", fmt.Sprintf("which is number %d", uid)} {
		if !strings.Contains(d.Log(), part) {
			t.Errorf("the daemon does not say %q", part)
		}
	}
}
