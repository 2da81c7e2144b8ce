package phpsock

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// fakeCluster notes what an operator asked for.
type fakeCluster struct {
	mu    sync.Mutex
	asked []string // guarded by mu
	fails error    // guarded by mu
}

func (f *fakeCluster) note(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, what)
	return f.fails
}

// failing has what is asked from now on fail, and returns what was asked before.
func (f *fakeCluster) failing(err error) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = err
	return strings.Join(f.asked, ",")
}

func (f *fakeCluster) Members(context.Context) (wire.Pairs, error) {
	return wire.Pairs{{Key: "cluster", Value: "shop"}}, nil
}

func (f *fakeCluster) Join(_ context.Context, address string) error { return f.note("join " + address) }
func (f *fakeCluster) Leave(context.Context) error                  { return f.note("leave") }
func (f *fakeCluster) Reload() ([]string, error)                    { return []string{"aa", "bb"}, f.note("reload") }

func (f *fakeCluster) Forget(id string, force bool) error {
	if force {
		id += " by force"
	}
	return f.note("forget " + id)
}

func TestAnOperatorChangesTheCluster(t *testing.T) {
	f := &fakeCluster{}
	v := open(t, func(c *Config, _ *locker.Config) { c.Cluster = f }).visit()
	if field(t, v.ask("cluster.members"), "cluster") != "shop" {
		t.Error("cluster.members does not tell what the cluster tells")
	}
	for _, c := range []struct {
		method string
		params []any
	}{
		{"cluster.join", []any{"address", "10.0.0.9:7946"}},
		{"cluster.join", nil},
		{"cluster.leave", nil},
		{"cluster.forget", []any{"id", "abc"}},
		{"cluster.forget", []any{"id", "abc", "force", true}},
	} {
		if v.ask(c.method, c.params...) != true {
			t.Errorf("%s %v is not true", c.method, c.params)
		}
	}
	if got := show(field(t, v.ask("cluster.reload"), "secrets")); got != "[aa bb]" {
		t.Errorf("cluster.reload tells of %s", got)
	}
	want := "join 10.0.0.9:7946,join ,leave,forget abc,forget abc by force,reload"
	v.fails(wire.Protocol, "", "cluster.forget")
	if got := f.failing(&wire.Error{Code: wire.Refused, Message: "no", Details: p("reason", "alive")}); got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
	v.fails(wire.Refused, "alive", "cluster.forget", "id", "abc")
}

func TestADaemonThatIsAloneHasNoCluster(t *testing.T) {
	v := open(t, nil).visit()
	for _, method := range []string{"cluster.members", "cluster.join", "cluster.leave", "cluster.reload"} {
		v.fails(wire.Refused, "no_cluster", method)
	}
}

// TestOnlyRootAndTheDaemonsUserChangeTheCluster asks as users that the kernel would name: a test cannot become them everywhere.
func TestOnlyRootAndTheDaemonsUserChangeTheCluster(t *testing.T) {
	f := &fakeCluster{}
	s := open(t, func(c *Config, _ *locker.Config) { c.Cluster = f }).s
	stranger := os.Geteuid() + 4711
	for _, c := range []struct {
		uid  int
		says string
	}{{0, ""}, {os.Geteuid(), ""}, {stranger, "not_operator"}, {nobody, "not_operator"}} {
		var e *wire.Error
		err := (&conn{s: s, peer: peer{uid: c.uid}}).mayOperate()
		if errors.As(err, &e) != (c.says != "") || e != nil && detail(e, "reason") != c.says {
			t.Errorf("user %d: %v", c.uid, err)
		}
	}
	for method, serve := range map[string]func(*conn, *wire.Params, []byte) ([]byte, error){
		"join": (*conn).clusterJoin, "leave": (*conn).clusterLeave, "forget": (*conn).clusterForget, "reload": (*conn).clusterReload,
	} {
		c := &conn{s: s, peer: peer{uid: stranger}}
		if _, err := serve(c, &wire.Params{Key: []byte("x")}, nil); !strings.Contains(err.Error(), "only root and the daemon's own user") {
			t.Errorf("%s of a stranger: %v", method, err)
		}
	}
	if len(f.asked) > 0 {
		t.Errorf("a stranger had it done: %v", f.asked)
	}
}
