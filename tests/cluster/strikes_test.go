package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// thinking is how long clients of a crowd stay away between two visits, on average.
const thinking = 80 * time.Millisecond

// standstill is less than a key waits for whose owner is gone. On a quiet machine other keys wait for a fifth of a second at most; on one that has ten times as
// much to do as it can, hosts hear late of each other.
const standstill = 4500 * time.Millisecond

// meanwhile lets the crowd go on for so long.
func (c *crowd) meanwhile(d time.Duration) {
	ctx, cancel := context.WithTimeout(c.t.Context(), d)
	defer cancel()
	<-ctx.Done()
}

// parted are sessions by who owns them.
type parted struct{ of, others []*session }

// part finds n sessions that a host owns and n that it does not, with clients on the others, so that no lock is held by a client of the host.
func (g *team) part(h *host, n int) (p parted) {
	g.t.Helper()
	for len(p.of) < n || len(p.others) < n {
		s := g.sessions(1, g.but(h)...)[0]
		switch {
		case s.owner == h && len(p.of) < n:
			p.of = append(p.of, s)
		case s.owner != h && len(p.others) < n:
			p.others = append(p.others, s)
		}
	}
	return p
}

// TestAnOwnerIsKilled under load: nothing acknowledged is lost, no lock has two holders, its keys are served again in under ten seconds and
// the others all the time. It comes back with its data, is killed again, and comes back without.
func TestAnOwnerIsKilled(t *testing.T) {
	t.Parallel()
	random := chance(t)
	g := form(t, plan{php: theStage.missing == ""})
	for round := range either(1, 6) {
		victim := g.hosts[random.IntN(len(g.hosts))]
		for _, keep := range []bool{true, false} {
			g.strike(fmt.Sprintf("round %d, %s", round, victim), victim, keep)
		}
	}
	g.report()
}

// strike kills a host and starts it again, with its data or without.
func (g *team) strike(name string, victim *host, keep bool) {
	t := g.t
	t.Helper()
	rest := g.but(victim)
	p := g.part(victim, 8)
	everywhere := g.sessions(8, g.hosts...)
	if g.plan.php {
		everywhere = append(everywhere, g.phpSessions(3, g.hosts...)...)
	}
	c := g.invite(append(append(everywhere, p.of...), p.others...), thinking)
	c.awaitAll()
	allowed := int(victim.degraded())
	at := c.now()
	victim.kill()
	c.awaitAll(victim)
	c.meanwhile(time.Second)
	back := c.now()
	affected, _ := gaps(p.of, at, back)
	unaffected, middle := gaps(p.others, at, back)
	killed := c.tally(at, victim)
	if !keep {
		victim.forget()
	}
	restarted := c.now()
	victim.start()
	took := g.awaitOneView(g.hosts...)
	c.awaitAll()
	joining, _ := gaps(append(p.of, p.others...), restarted, c.now())
	t.Logf("%s: its keys back after %v, others stood still for %v at most (%v in the middle); with it back (data kept: %v) one view after %v, longest gap %v; since: %s",
		name, affected.Round(ms), unaffected.Round(ms), middle.Round(ms), keep, took.Round(ms), joining.Round(ms), tallied(killed))
	if affected >= 10*time.Second {
		t.Errorf("%s: its keys were not served for %v", name, affected)
	}
	if unaffected >= standstill {
		t.Errorf("%s: the keys of others were not served for %v", name, unaffected)
	}
	c.judge(rest[0], allowed, victim)
}

const ms = time.Millisecond

// TestAnOwnerStops for a while, as a virtual machine does: it acknowledges nothing by what it believed before.
func TestAnOwnerStops(t *testing.T) {
	t.Parallel()
	random := chance(t)
	g := form(t, plan{})
	for _, pause := range either([]time.Duration{time.Second, 3 * time.Second}, []time.Duration{time.Second, 3 * time.Second, 7 * time.Second, 40 * time.Second}) {
		victim := g.hosts[random.IntN(len(g.hosts))]
		p := g.part(victim, 8)
		c := g.invite(append(append(g.sessions(8, g.hosts...), p.of...), p.others...), thinking)
		c.awaitAll()
		at := c.now()
		victim.stop()
		c.meanwhile(pause)
		victim.resume()
		healed := g.awaitOneView(g.hosts...)
		c.awaitAll()
		over := c.now()
		affected, _ := gaps(p.of, at, over)
		unaffected, _ := gaps(p.others, at, over)
		n := c.tally(at)
		t.Logf("%s stopped for %v: its keys stood still for %v, others for %v; one view %v after it went on; since: %s",
			victim, pause, affected.Round(ms), unaffected.Round(ms), healed.Round(ms), tallied(n))
		if healed > 30*time.Second {
			t.Errorf("one view only after %v", healed)
		}
		if affected >= 10*time.Second || unaffected >= standstill {
			t.Errorf("keys were not served for %v (the host's) and %v (others)", affected, unaffected)
		}
		c.judge(g.hosts[0], int(victim.degraded()), victim)
	}
	g.report()
}

// TestAMinorityIsCutOff from the others, and from who hears it, for a while.
func TestAMinorityIsCutOff(t *testing.T) {
	t.Parallel()
	random := chance(t)
	type cutting struct {
		size, off int
		oneWay    bool
		long      time.Duration
	}
	list := either([]cutting{{3, 1, false, 5 * time.Second}, {5, 2, true, 5 * time.Second}}, []cutting{
		{3, 1, false, 5 * time.Second},
		{3, 1, true, 5 * time.Second},
		{3, 1, false, time.Minute},
		{3, 1, true, time.Minute},
		{5, 2, false, 5 * time.Second},
		{5, 2, true, 5 * time.Second},
		{5, 2, false, time.Minute},
		{5, 2, true, time.Minute},
	})
	for _, x := range list {
		way := "both ways"
		deaf := random.IntN(2) == 0
		switch {
		case x.oneWay && deaf:
			way = "it hears nothing"
		case x.oneWay:
			way = "it is not heard"
		}
		t.Run(fmt.Sprintf("%d of %d for %v, %s", x.off, x.size, x.long, way), func(t *testing.T) {
			t.Parallel()
			g := form(t, plan{size: x.size, apart: true})
			minority, majority := g.hosts[:x.off], g.hosts[x.off:]
			rest := g.sessions(12, majority...)
			c := g.invite(append(g.sessions(12, g.hosts...), rest...), time.Duration(x.size-1)*thinking/2)
			c.awaitAll()
			at, begunOlder := c.now(), g.begunOlder()
			switch {
			case !x.oneWay:
				deafen(minority, majority)
				mute(minority, majority)
			case deaf:
				deafen(minority, majority)
			default:
				mute(minority, majority)
			}
			c.meanwhile(x.long)
			healing := c.now()
			during := c.tally(at)
			g.heal()
			healed := g.awaitOneView(g.hosts...)
			c.awaitAll()
			longest, middle := gaps(rest, at, c.now())
			t.Logf("keys of the majority's clients stood still for %v at most, %v in the middle; one view %v after it healed; in %v of the cut: %s; since: %s",
				longest.Round(ms), middle.Round(ms), healed.Round(ms), (healing - at).Round(ms), tallied(during), tallied(c.tally(healing)))
			if healed > 30*time.Second {
				t.Errorf("one view only after %v", healed)
			}
			limit := 15 * time.Second
			if x.off > 1 { // owner and runner-up of some are cut off together, and have to come back
				limit += x.long
			}
			if longest >= limit || middle >= 15*time.Second {
				t.Errorf("a key was not served for %v, the one in the middle for %v", longest, middle)
			}
			allowed := 0
			for _, h := range minority {
				allowed += int(h.degraded())
			}
			g.report()
			if n := g.begunOlder(); n > begunOlder {
				t.Errorf("%v shards were begun without their newest copy, which was on hosts that came back", n-begunOlder)
			}
			c.judge(g.hosts[x.off], allowed, minority...)
		})
	}
}

// begunOlder returns how many shards were begun from an older copy than the newest, or empty.
func (g *team) begunOlder() float64 {
	n := g.counts()
	return n["coatcheck_owner_shards_empty_total"] + n["coatcheck_owner_shards_older_total"]
}
