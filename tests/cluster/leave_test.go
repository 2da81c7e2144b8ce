package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/client"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// TestAHostLeavesAndJoinsUnnoticed under load: nobody on another host is told anything but success, and no lock is lost.
func TestAHostLeavesAndJoinsUnnoticed(t *testing.T) {
	t.Parallel()
	random := chance(t)
	g := form(t, plan{php: true})
	for range either(1, 5) {
		leaver := g.hosts[random.IntN(len(g.hosts))]
		rest := g.but(leaver)
		all := append(g.phpSessions(3, rest...), g.sessions(10, rest...)...)
		c := g.invite(append(all, g.sessions(4, g.hosts...)...), thinking)
		c.awaitAll()
		locks := rest[0].lockMany(t)
		at := c.now()
		leaver.leave()
		g.awaitOneView(rest...)
		c.awaitAll(leaver)
		locks.check()
		back := c.now()
		leaver.start()
		took := g.awaitOneView(g.hosts...)
		c.awaitAll()
		locks.release()
		leaving, _ := gaps(all, at, back)
		joining, _ := gaps(all, back, c.now())
		n := c.tally(at, leaver)
		t.Logf("%s left (longest gap %v) and joined (%v; one view after %v); on the others: %s", leaver, leaving.Round(ms), joining.Round(ms), took.Round(ms), tallied(n))
		c.judge(rest[0], 0)
		for _, what := range []outcome{busy, notDone, superseded, unknownOpen, unknownCommit, away} {
			if n[what] > 0 {
				t.Errorf("%d visits on hosts that stayed ended so: %s, as %s", n[what], what, c.example(what, at, leaver))
			}
		}
	}
	g.report()
}

// example returns a visit that ended so.
func (c *crowd) example(what outcome, since time.Duration, without ...*host) string {
	for _, s := range c.sessions {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, v := range s.visits {
			if v.what == what && v.over >= since && !slices.Contains(without, c.team.hosts[v.host]) {
				return fmt.Sprintf("%+v", v)
			}
		}
	}
	return "none"
}

// locks are held over what is to come, by a client of a host.
type locks struct {
	t     *testing.T
	conn  *client.Client
	names []string
}

const lockToken = "the token of whoever holds them"

// lockMany takes locks, bound and detached, enough for each host to own some.
func (h *host) lockMany(t *testing.T) *locks {
	t.Helper()
	conn, err := h.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	l := &locks{t: t, conn: conn}
	for i := range 24 {
		name := randomHex()
		p := pairs("name", name, "token", lockToken)
		if i%2 == 0 {
			p = append(p, pairs("bound", true, "lease_ms", lease.Milliseconds())...)
		}
		if _, err := l.call("lock.acquire", p); err != nil {
			t.Fatal(err)
		}
		l.names = append(l.names, name)
	}
	return l
}

func (l *locks) call(method string, p wire.Pairs) (any, error) {
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	return l.conn.Call(ctx, method, p)
}

// check says for each lock that is not held any more.
func (l *locks) check() {
	l.t.Helper()
	for _, name := range l.names {
		if _, err := l.call("lock.acquire", pairs("name", name, "token", "another's")); failure(err, unknownOpen) != busy {
			l.t.Errorf("a lock that is held was asked for by another, who was told: %v", err)
		}
	}
}

// release releases all, each of which must be held.
func (l *locks) release() {
	l.t.Helper()
	l.check()
	for _, name := range l.names {
		if held, err := l.call("lock.release", pairs("name", name, "token", lockToken)); err != nil || held != true {
			l.t.Errorf("a lock that is held was released: %v, %v", held, err)
		}
	}
}
