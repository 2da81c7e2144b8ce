package cluster

import (
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// delay is a proxy before a host's peer port that keeps everything back for a while, each way.
type delay struct {
	long   time.Duration
	target string
	ln     net.Listener
	conns  sync.WaitGroup

	mu   sync.Mutex
	open []net.Conn // guarded by mu
}

// keepBack starts a proxy, which ends with the test.
func keepBack(t *testing.T, long time.Duration, listen, target string) {
	t.Helper()
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	d := &delay{long: long, target: target, ln: ln}
	d.conns.Go(d.accept)
	t.Cleanup(func() {
		ln.Close()
		d.mu.Lock()
		for _, c := range d.open {
			c.Close()
		}
		d.open = nil
		d.mu.Unlock()
		d.conns.Wait()
	})
}

func (d *delay) accept() {
	for {
		in, err := d.ln.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", d.target)
		if err != nil {
			in.Close()
			continue
		}
		d.mu.Lock()
		d.open = append(d.open, in, out)
		d.mu.Unlock()
		d.conns.Go(func() { d.pass(in, out) })
		d.conns.Go(func() { d.pass(out, in) })
	}
}

// piece is what was read at once, and when it is to be written.
type piece struct {
	b   []byte
	due time.Time
}

// pass passes on what comes from one side, later and in order.
func (d *delay) pass(from, to net.Conn) {
	pieces := make(chan piece, 1<<12)
	d.conns.Go(func() {
		defer to.Close()
		for p := range pieces {
			<-time.After(time.Until(p.due))
			if _, err := to.Write(p.b); err != nil {
				from.Close()
				for range pieces { // until the reader sees it
				}
				return
			}
		}
	})
	defer close(pieces)
	for {
		b := make([]byte, 32<<10)
		n, err := from.Read(b)
		if n > 0 {
			pieces <- piece{b[:n], time.Now().Add(d.long)}
		}
		if err != nil {
			return
		}
	}
}

// TestPeersAreFarAway: what hosts say to each other takes 20 ms, each way. Gossip is not kept back. A copy takes up to two round trips, for the one before it
// may be on its way, so it gets more time than the default.
func TestPeersAreFarAway(t *testing.T) {
	t.Parallel()
	chance(t)
	const long = 20 * time.Millisecond
	var proxied []*host
	g := form(t, plan{settings: "ack_timeout = '200ms'\n", peerAdvertise: func(h *host) string {
		far := strings.TrimSuffix(h.peering(), "7") + "8" // the port beside
		if !slices.Contains(proxied, h) {
			proxied = append(proxied, h)
			keepBack(t, long, far, h.peering())
		}
		return far
	}})
	g.serveFor(either(2*time.Second, 20*time.Second))
}

// TestPacketsAreLost: one in a hundred, of all that hosts send each other.
func TestPacketsAreLost(t *testing.T) {
	t.Parallel()
	chance(t)
	g := form(t, plan{apart: true})
	for _, h := range g.hosts {
		h.filter("-A", "INPUT", "-i", "eth0", "-m", "statistic", "--mode", "random", "--probability", "0.01", "-j", "DROP")
	}
	g.serveFor(either(2*time.Second, 60*time.Second))
}

// serveFor lets a crowd go on for so long, and tells how long visits took by where the owner was.
func (g *team) serveFor(long time.Duration) {
	t := g.t
	t.Helper()
	all := g.sessions(9, g.hosts...)
	for _, h := range g.hosts {
		all = append(all, g.sessions(6, h)...)
	}
	c := g.invite(all, thinking)
	c.awaitAll()
	from := c.now()
	c.meanwhile(long)
	n := c.tally(from)
	c.leave()
	for _, x := range []struct {
		where string
		here  bool
	}{{"on their own host", true}, {"on another host", false}} {
		middle, late, visits := c.took(from, x.here)
		t.Logf("visits to sessions whose owner is %s: %d, p50 %v, p99 %v", x.where, visits, middle.Round(ms/10), late.Round(ms/10))
	}
	t.Logf("in %v: %s", long, tallied(n))
	if bad := n[odd] + n[superseded] + n[away] + n[notDone]; bad > 0 {
		t.Errorf("%d visits ended badly", bad)
	}
	c.judge(g.hosts[0], 0)
	g.report()
}

// took returns how long visits took to sessions of one client, who waits for nobody, without the time in which the session was open: the middle one
// and the 99th of a hundred.
func (c *crowd) took(since time.Duration, here bool) (middle, late time.Duration, n int) {
	var all []time.Duration
	for _, s := range c.sessions {
		if len(s.hosts) > 1 {
			continue
		}
		for _, v := range s.visits {
			if v.called >= since && v.what == stored && (v.host == s.owner.index) == here {
				all = append(all, v.granted-v.called+v.over-v.storing)
			}
		}
	}
	if len(all) == 0 {
		return 0, 0, 0
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100], len(all)
}
