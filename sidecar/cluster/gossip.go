package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	bindTries     = 10              // of a port that is free for UDP and TCP alike
	gossipTimeout = 5 * time.Second // of a stream
	lookupTimeout = 3 * time.Second
	reclaimAfter  = time.Second // since its end, before a node id may have another address
)

// meta is what a node says of itself in gossip.
type meta struct {
	Protocol string `json:"p"`
	Boot     string `json:"b"`
	Name     string `json:"n"`
	Addr     string `json:"a"`
}

// event is something that gossip saw.
type event struct {
	seen entry // only its ID when it is lost
	lost bool
}

// gossip is memberlist, and what it calls back. memberlist calls back with its locks held and must not be called then, so
// callbacks only look at the set, which is a leaf, and add to a queue.
type gossip struct {
	c     *Cluster
	list  *memberlist.Memberlist
	ring  *memberlist.Keyring
	meta  []byte
	ready chan struct{} // holds one: events wait

	mu     sync.Mutex
	events []event // guarded by mu
}

// transport dials under a context, so that an end need not wait for a host that does not answer.
type transport struct {
	*memberlist.NetTransport
	ctx context.Context
}

// DialAddressTimeout is part of memberlist.NodeAwareTransport.
func (t transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout}
	return d.DialContext(t.ctx, "tcp", a.Addr)
}

// DialTimeout is part of memberlist.Transport.
func (t transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// bindGossip listens for gossip. It returns the port as well.
func bindGossip(bind netip.AddrPort, logger *log.Logger) (t *memberlist.NetTransport, port int, err error) {
	tries := 1
	if bind.Port() == 0 {
		tries = bindTries // a port that is free for TCP may not be so for UDP
	}
	for range tries {
		t, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{bind.Addr().String()}, BindPort: int(bind.Port()), Logger: logger,
		})
		if err == nil {
			return t, t.GetAutoBindPort(), nil
		}
	}
	return nil, 0, fmt.Errorf("listen for gossip on %s: %w", bind, err)
}

// startGossip begins to gossip. Nobody is joined yet.
func startGossip(ctx context.Context, c *Cluster, nt *memberlist.NetTransport, advertise netip.AddrPort, logger *log.Logger) (*gossip, error) {
	self := c.set.self
	b, err := json.Marshal(meta{c.cfg.protocol, self.Boot, self.Name, self.Addr})
	if err != nil || len(b) > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("the node's name and address have more than %d bytes", memberlist.MetaMaxSize)
	}
	g := &gossip{c: c, meta: b, ready: make(chan struct{}, 1)}
	secrets := c.trust.Load().secrets
	if g.ring, err = memberlist.NewKeyring(nil, secrets[0].gossipKey); err != nil {
		return nil, fmt.Errorf("keys of gossip: %w", err)
	}
	if err := g.setKeys(secrets); err != nil {
		return nil, err
	}
	conf := memberlist.DefaultLANConfig()
	conf.Name, conf.Label, conf.Keyring = self.ID, c.cfg.ID, g.ring
	conf.Transport, conf.Logger, conf.TCPTimeout = transport{nt, ctx}, logger, gossipTimeout
	conf.AdvertiseAddr, conf.AdvertisePort = advertise.Addr().String(), int(advertise.Port())
	conf.BindAddr, conf.BindPort = conf.AdvertiseAddr, conf.AdvertisePort // the transport is bound; this is the port of an address without one
	conf.DeadNodeReclaimTime = reclaimAfter
	conf.Delegate, conf.Events, conf.Alive, conf.Merge, conf.Conflict = g, g, g, g, g
	if c.cfg.tune != nil {
		c.cfg.tune(conf)
	}
	if g.list, err = memberlist.Create(conf); err != nil {
		return nil, fmt.Errorf("start gossip: %w", err)
	}
	return g, nil
}

// setKeys makes the first secret's key the one that encrypts, and has those of all decrypt and no other.
func (g *gossip) setKeys(secrets []secret) error {
	for _, s := range secrets {
		if err := g.ring.AddKey(s.gossipKey); err != nil {
			return fmt.Errorf("keys of gossip: %w", err)
		}
	}
	if err := g.ring.UseKey(secrets[0].gossipKey); err != nil {
		return fmt.Errorf("keys of gossip: %w", err)
	}
	for _, key := range g.ring.GetKeys() {
		wanted := slices.ContainsFunc(secrets, func(s secret) bool { return slices.Equal(s.gossipKey, key) })
		if wanted {
			continue
		}
		if err := g.ring.RemoveKey(key); err != nil {
			return fmt.Errorf("keys of gossip: %w", err)
		}
	}
	return nil
}

// read returns what a node says of itself, or why it is ignored.
func (g *gossip) read(n *memberlist.Node) (entry, error) {
	var m meta
	if err := json.Unmarshal(n.Meta, &m); err != nil {
		return entry{}, errors.New("what it says of itself cannot be read")
	}
	if m.Protocol != g.c.cfg.protocol {
		return entry{}, fmt.Errorf("it speaks %.40q, and this host speaks %s", m.Protocol, g.c.cfg.protocol)
	}
	if err := checkMember(n.Name, m.Boot, m.Name, m.Addr); err != nil {
		return entry{}, err
	}
	at := net.JoinHostPort(n.Addr.String(), strconv.Itoa(int(n.Port)))
	return entry{Member: Member{ID: n.Name, Boot: m.Boot, Name: m.Name, Addr: m.Addr}, gossip: at}, nil
}

// put adds an event.
func (g *gossip) put(e event) {
	g.mu.Lock()
	g.events = append(g.events, e)
	g.mu.Unlock()
	select {
	case g.ready <- struct{}{}:
	default:
	}
}

// take takes the events out.
func (g *gossip) take() []event {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.events
	g.events = nil
	return all
}

// NotifyJoin is part of memberlist.EventDelegate.
func (g *gossip) NotifyJoin(n *memberlist.Node) {
	if e, err := g.read(n); err == nil { // NotifyAlive has said what is wrong with others
		g.put(event{seen: e})
	}
}

// NotifyUpdate is part of memberlist.EventDelegate.
func (g *gossip) NotifyUpdate(n *memberlist.Node) { g.NotifyJoin(n) }

// NotifyLeave is part of memberlist.EventDelegate.
func (g *gossip) NotifyLeave(n *memberlist.Node) {
	g.put(event{seen: entry{Member: Member{ID: n.Name}}, lost: true})
}

// NotifyAlive is part of memberlist.AliveDelegate. It has those ignored who are none of us.
func (g *gossip) NotifyAlive(n *memberlist.Node) error {
	e, err := g.read(n)
	if err != nil {
		g.c.keptOut(n.Name, n.Address(), err.Error())
		return err
	}
	return g.admit(e)
}

// NotifyMerge is part of memberlist.MergeDelegate. It ends a join by this host when another one has its node id.
func (g *gossip) NotifyMerge(nodes []*memberlist.Node) error {
	for _, n := range nodes {
		if n.Name != g.c.set.self.ID || n.State != memberlist.StateAlive {
			continue // NotifyAlive is asked about the others
		}
		if e, err := g.read(n); err == nil {
			return g.admit(e)
		}
	}
	return nil
}

// admit refuses a run that has left, and a node id that another host has.
func (g *gossip) admit(e entry) error {
	own := &g.c.set.self
	if e.ID == own.ID && e.gossip == own.gossip {
		return nil // this host, or an earlier run of it, as others remember it
	}
	if why := g.c.set.conflict(e.ID, e.Boot, e.Addr, e.gossip); why != "" {
		g.c.keptOut(e.ID, e.gossip, why)
		return errors.New(why)
	}
	if g.c.set.hasLeft(e.ID, e.Boot) {
		return errors.New("it has left")
	}
	return nil
}

// NotifyConflict is part of memberlist.ConflictDelegate. It is for hosts that met by gossip, not by a join.
func (g *gossip) NotifyConflict(_, other *memberlist.Node) {
	if e, err := g.read(other); err == nil {
		_ = g.admit(e) // it logs
	}
}

// NodeMeta is part of memberlist.Delegate.
func (g *gossip) NodeMeta(int) []byte { return g.meta }

// NotifyMsg is part of memberlist.Delegate. Nothing rides on gossip.
func (g *gossip) NotifyMsg([]byte) {}

// GetBroadcasts is part of memberlist.Delegate.
func (g *gossip) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState is part of memberlist.Delegate.
func (g *gossip) LocalState(bool) []byte { return nil }

// MergeRemoteState is part of memberlist.Delegate.
func (g *gossip) MergeRemoteState([]byte, bool) {}

// rejoin tries the seeds and the members that are not alive, again and again: memberlist forgets the other side of a long cut.
func (g *gossip) rejoin(ctx context.Context) {
	tick := time.NewTicker(g.c.cfg.RejoinEvery)
	defer tick.Stop()
	for {
		g.joinAll(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// joinAll tries, beside each other, all that are to be tried.
func (g *gossip) joinAll(ctx context.Context) {
	var trying sync.WaitGroup
	for _, addr := range g.targets(ctx) {
		trying.Go(func() {
			if _, err := g.list.Join([]string{addr}); err != nil && ctx.Err() == nil {
				g.c.cfg.Log.Info("a host cannot be joined", "address", addr, "error", err)
			}
		})
	}
	trying.Wait()
}

// targets returns ip:port of the seeds and the members that are not alive.
func (g *gossip) targets(ctx context.Context) []string {
	targets, active := g.c.set.gossips()
	for _, seed := range g.c.cfg.Join {
		addrs, err := lookup(ctx, seed)
		if err != nil && ctx.Err() == nil {
			g.c.cfg.Log.Warn("a host to join cannot be looked up", "join", seed, "error", err)
		}
		targets = append(targets, addrs...)
	}
	slices.Sort(targets)
	return slices.DeleteFunc(slices.Compact(targets), func(a string) bool { return active[a] })
}

// lookup returns the ip:port addresses of a host:port.
func lookup(ctx context.Context, hostport string) (all []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for _, ip := range ips {
		all = append(all, net.JoinHostPort(ip.Unmap().String(), port))
	}
	return all, err
}
