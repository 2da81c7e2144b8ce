package cluster

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/socket"
)

const (
	sweepEvery  = time.Minute
	warnExpiry  = 30 * 24 * time.Hour // before a certificate's end
	noticeLimit = 3 * time.Second     // how long a peer may take to take in a member set
)

// Handler serves what peers ask.
type Handler interface {
	// Serve answers a question of a peer. It owns body, and gives the answer away. The ordered questions of one peer are served one after another
	// in the order in which they were sent, others beside each other. The context ends when the peer's connection does.
	Serve(ctx context.Context, from string, body []byte) ([]byte, error)
}

// Cluster is this host's place in a cluster.
type Cluster struct {
	cfg     Config
	disk    disk
	set     *set
	trust   atomic.Pointer[trust]
	handler atomic.Pointer[Handler]
	gossip  *gossip
	server  *server

	running   sync.WaitGroup
	touched   chan struct{} // holds one: the set changed, or is to be told
	changed   chan struct{} // holds one: the functions of OnChange are to be called
	announced atomic.Bool   // the set is to be told to peers
	refusals  socket.Seldom
	outsiders socket.Seldom
	reloading sync.Mutex
	ending    sync.Mutex // held by the ends of gossip, which memberlist wants one after another

	leaving context.CancelFunc // ends the search for others

	mu       sync.Mutex
	links    map[string]*link // by node id; guarded by mu
	onChange []func()         // guarded by mu
	undo     []func()         // run backwards by Close; guarded by mu
	closed   bool             // guarded by mu
}

// Start joins the cluster, in the background: Members and OnChange tell who was found. When it returns an error nothing is left behind.
func Start(cfg Config) (*Cluster, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	c := &Cluster{cfg: cfg, disk: disk{cfg.Dir}, touched: make(chan struct{}, 1), changed: make(chan struct{}, 1), links: make(map[string]*link)}
	if err := c.start(); err != nil {
		c.Close()
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return c, nil
}

func (c *Cluster) start() error {
	t, err := c.cfg.readTrust()
	if err != nil {
		return err
	}
	c.trust.Store(t)
	id, err := c.disk.loadNode()
	if err != nil {
		return err
	}
	kept, err := c.disk.loadMembers(c.cfg.ID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.onClose(c.running.Wait)
	c.onClose(cancel)
	return c.listen(ctx, id, kept)
}

// listen opens the ports and starts what runs.
func (c *Cluster) listen(ctx context.Context, id string, kept roster) error {
	bind, err := bindAddress("bind", c.cfg.Bind)
	if err != nil {
		return err
	}
	peerBind, err := bindAddress("peer bind", c.cfg.PeerBind)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", peerBind.String())
	if err != nil {
		return fmt.Errorf("listen for peers: %w", err)
	}
	c.onClose(func() { ln.Close() })
	logger := log.New(&memberlistLog{log: c.cfg.Log, now: c.cfg.Now}, "", 0)
	nt, port, err := bindGossip(bind, logger)
	if err != nil {
		return err
	}
	c.onClose(func() { _ = nt.Shutdown() }) // its only error is nil
	advertise, err := advertised(c.cfg.Advertise, port)
	if err != nil {
		return err
	}
	addr, err := c.peerAddress(advertise.Addr().String(), ln)
	if err != nil {
		return err
	}
	self := Member{ID: id, Boot: newID(), Name: c.trust.Load().node, Addr: addr, Alive: true}
	c.set = newSet(entry{Member: self, gossip: advertise.String()})
	c.set.merge(kept, c.cfg.Now())
	c.server = newServer(c, ln)
	if c.gossip, err = startGossip(ctx, c, nt, advertise, logger); err != nil {
		return err
	}
	c.onClose(c.endGossip)
	c.onClose(c.save)
	c.run(ctx)
	return nil
}

// peerAddress returns where peers reach this host.
func (c *Cluster) peerAddress(host string, ln net.Listener) (string, error) {
	port := ln.Addr().(*net.TCPAddr).Port
	addr := c.cfg.PeerAdvertise
	if addr == "" {
		addr = net.JoinHostPort(host, "0")
	}
	a, err := advertised(addr, port)
	return a.String(), err
}

// run starts the goroutines.
func (c *Cluster) run(ctx context.Context) {
	searching, stop := context.WithCancel(ctx)
	c.leaving = stop
	c.relink(ctx)
	c.running.Go(func() { c.server.accept(ctx) })
	c.running.Go(func() { c.gossip.rejoin(searching) })
	c.running.Go(func() { c.tend(ctx) })
	c.running.Go(func() { c.tell(ctx) })
	self := c.Self()
	c.cfg.Log.Info("cluster", "id", c.cfg.ID, "node", self.ID, "boot", self.Boot, "name", self.Name,
		"gossip", c.set.self.gossip, "peers", self.Addr, "secrets", c.Secrets(), "certificates_from_files", c.trust.Load().files)
	c.warnOfExpiry()
}

// onClose adds what Close does, before all that was added earlier.
func (c *Cluster) onClose(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undo = append(c.undo, f)
}

// Close ends everything without a word to the peers, as a crash does: this host stays in the member set. It must not be called from a
// function of OnChange or a Handler, for which it waits.
func (c *Cluster) Close() error {
	c.mu.Lock()
	undo := c.undo
	c.undo, c.closed = nil, true
	c.mu.Unlock()
	for _, f := range slices.Backward(undo) {
		f()
	}
	return nil
}

// Self returns this host.
func (c *Cluster) Self() Member {
	m := c.set.self.Member
	m.Seen = c.cfg.Now()
	return m
}

// Members returns the member set with this host, sorted by ID. The slice is the caller's.
func (c *Cluster) Members() []Member { return c.set.list(c.cfg.Now()) }

// OnChange has f called, from a goroutine of its own, after the member set or a member changed. Several changes may be one call.
func (c *Cluster) OnChange(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onChange = append(c.onChange, f)
}

// Handle has h serve what peers ask. Before, questions are refused.
func (c *Cluster) Handle(h Handler) { c.handler.Store(&h) }

// Call asks a peer and returns its answer. Ordered questions of one peer are served in the order of their calls. Body must not change until it
// returns. It returns ErrNotSent if the question was not served and never will be, at once if there is no connection; it
// returns ErrNoAnswer if it may have been served, with ErrFailed if the Handler returned an error.
func (c *Cluster) Call(ctx context.Context, id string, inOrder bool, body []byte) ([]byte, error) {
	k := question
	if inOrder {
		k = ordered
	}
	return c.ask(ctx, id, k, body)
}

func (c *Cluster) ask(ctx context.Context, id string, k kind, body []byte) ([]byte, error) {
	c.mu.Lock()
	l, closed := c.links[id], c.closed
	c.mu.Unlock()
	switch {
	case closed:
		return nil, fmt.Errorf("%w: %w", ErrNotSent, ErrClosed)
	case l == nil:
		return nil, fmt.Errorf("%w: node %s is no member", ErrNotSent, id)
	}
	return l.ask(ctx, k, body)
}

// Connected says whether there is a connection on which a member can be asked.
func (c *Cluster) Connected(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.links[id]
	if l == nil {
		return false
	}
	a := l.current.Load()
	return a != nil && !a.isEnded()
}

// touch has a change of the set saved and told.
func (c *Cluster) touch() { signal(c.touched) }

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// tend follows what gossip and peers say of the member set until the context ends.
func (c *Cluster) tend(ctx context.Context) {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.gossip.ready:
			if !c.follow(c.gossip.take()) {
				continue
			}
		case <-sweep.C:
			c.sweep()
		case <-c.touched:
		}
		c.save()
		c.relink(ctx)
		signal(c.changed)
		if c.announced.Swap(false) {
			c.running.Go(func() { _ = c.announce(ctx, c.set.roster(c.cfg.Now())) }) // the next sweep tells those who did not hear it
		}
	}
}

// follow takes in what gossip saw.
func (c *Cluster) follow(events []event) (changed bool) {
	now := c.cfg.Now()
	for _, e := range events {
		if e.lost {
			if c.set.lost(e.seen.ID, now) {
				c.cfg.Log.Warn("a host is not alive", "node", e.seen.ID)
				changed = true
			}
			continue
		}
		if c.set.saw(e.seen, now) {
			c.cfg.Log.Info("a host is alive", "node", e.seen.ID, "boot", e.seen.Boot, "name", e.seen.Name, "peers", e.seen.Addr)
			changed = true
		}
	}
	return changed
}

// sweep does what is to be done from time to time. The set is told again, for a peer that was away when it changed.
func (c *Cluster) sweep() {
	for _, m := range c.set.sweep(c.cfg.Now()) {
		c.cfg.Log.Warn("a member was unseen for too long and is forgotten", "node", m.ID, "name", m.Name)
	}
	c.warnOfExpiry()
	c.announced.Store(true)
}

// tell calls the functions of OnChange.
func (c *Cluster) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
		}
		c.mu.Lock()
		all := slices.Clone(c.onChange)
		c.mu.Unlock()
		for _, f := range all {
			f()
		}
	}
}

// save keeps the set. A disk that fails costs no more than what a restart knows of the others.
func (c *Cluster) save() {
	if err := c.disk.saveMembers(c.cfg.ID, c.set.roster(c.cfg.Now())); err != nil {
		c.cfg.Log.Error("the member set is not kept: after a restart this host would not know all members", "error", err)
	}
}

// relink has a link to each host that is a member or is to become one, and none to others.
func (c *Cluster) relink(ctx context.Context) {
	addresses := c.set.addresses()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, l := range c.links {
		if _, ok := addresses[id]; !ok {
			l.stop()
			delete(c.links, id)
		}
	}
	for id, addr := range addresses {
		if l := c.links[id]; l != nil {
			l.reach(addr)
			continue
		}
		c.links[id] = c.startLink(ctx, id, addr)
	}
}

func (c *Cluster) startLink(ctx context.Context, id, addr string) *link {
	ctx, stop := context.WithCancel(ctx)
	l := &link{id: id, dial: c.dial, trust: c.trust.Load, kick: make(chan struct{}, 1), report: c.linkTrouble, stop: stop}
	l.addr.Store(&addr)
	c.running.Go(func() { l.run(ctx, c.cfg.Random) })
	return l
}

func (c *Cluster) linkTrouble(l *link, err error) {
	if unlogged, now := l.logged.Now(c.cfg.Now()); now {
		c.cfg.Log.Warn("no connection to a peer", "node", l.id, "address", *l.addr.Load(), "error", err, "unlogged", unlogged)
	}
}

// met takes in what a peer said when it was greeted. Who can be heard can probably be reached.
func (c *Cluster) met(peer greeting) {
	c.learn(peer.Roster)
	if c.set.met(peer, c.cfg.Now()) {
		c.cfg.Log.Info("a member has come", "node", peer.ID, "boot", peer.Boot, "name", peer.Name, "peers", peer.Addr)
		c.announced.Store(true)
		c.touch()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.links[peer.ID]; l != nil {
		l.wake()
	}
}

// learn takes in a peer's member set, and passes on what was new.
func (c *Cluster) learn(r roster) {
	if c.set.merge(r, c.cfg.Now()) {
		c.announced.Store(true)
		c.touch()
	}
}

// announce tells the member set to all peers. It returns when they have taken it in, with the errors of those who did not.
func (c *Cluster) announce(ctx context.Context, r roster) error {
	ctx, cancel := context.WithTimeout(ctx, noticeLimit)
	defer cancel()
	body := r.encode()
	c.mu.Lock()
	ids := make([]string, 0, len(c.links))
	for id := range c.links {
		ids = append(ids, id)
	}
	c.mu.Unlock()
	errs := make([]error, len(ids))
	var telling sync.WaitGroup
	for i, id := range ids {
		telling.Go(func() { _, errs[i] = c.ask(ctx, id, notice, body) })
	}
	telling.Wait()
	return errors.Join(errs...)
}

// keptOut reports a host that cannot be let into the gossip.
func (c *Cluster) keptOut(id, gossip, why string) {
	if unlogged, now := c.outsiders.Now(c.cfg.Now()); now {
		c.cfg.Log.Error("a host is kept out of the cluster", "node", id, "gossip", gossip, "reason", why, "unlogged", unlogged)
	}
}

// Forget takes a member that is not alive out of the member set, here and at the peers. If it was only cut off it is a member
// again as soon as it is seen. It returns ErrUnknown, or ErrAlive.
func (c *Cluster) Forget(id string) error {
	if err := c.set.forget(id, c.cfg.Now()); err != nil {
		return err
	}
	c.cfg.Log.Warn("a member is forgotten by an operator", "node", id)
	c.announced.Store(true)
	c.touch()
	return nil
}

// Join meets the hosts at a gossip address, host:port, once. Those that are met are kept like all members, so it need not be done again.
func (c *Cluster) Join(ctx context.Context, address string) error {
	addrs, err := lookup(ctx, address)
	if err == nil {
		_, err = c.gossip.list.Join(addrs)
	}
	if err != nil {
		return fmt.Errorf("join %s: %w", address, err)
	}
	return nil
}

// Leave tells the peers to take this host out of the member set, then ends gossip. Whoever has to be handed something must have it before. This host
// keeps its own member set, so that it cannot become a majority of its own, and comes back when it is started again. An error
// says which peers did not hear it; they will from the others. Close is to follow.
func (c *Cluster) Leave(ctx context.Context) error {
	c.leaving()
	self := c.Self()
	r := c.set.roster(c.cfg.Now())
	r.Gone = append(r.Gone, rosterGone{ID: self.ID, Boot: self.Boot, Left: true, At: self.Seen})
	told := c.announce(ctx, r)
	timeout := noticeLimit
	if at, ok := ctx.Deadline(); ok {
		timeout = max(time.Until(at), time.Millisecond) // 0 would be for ever
	}
	return errors.Join(told, c.leaveGossip(timeout))
}

// endGossip ends gossip without a word.
func (c *Cluster) endGossip() {
	c.ending.Lock()
	defer c.ending.Unlock()
	_ = c.gossip.list.Shutdown() // its only error is nil
}

// leaveGossip says farewell by gossip.
func (c *Cluster) leaveGossip(timeout time.Duration) error {
	c.ending.Lock()
	defer c.ending.Unlock()
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return ErrClosed
	}
	return c.gossip.list.Leave(timeout)
}

// Reload reads the secrets and the certificates again and uses them from now on. Connections of peers that would
// not be let in by them any more are ended. When it returns an error all is as it was.
//
// To change a secret while the cluster serves: write the new one behind the old one in the files of all hosts and reload, then in front
// of it and reload, then take the old one out and reload. Calls that are under way when a connection is made anew get no answer.
func (c *Cluster) Reload() error {
	c.reloading.Lock()
	defer c.reloading.Unlock()
	t, err := c.cfg.readTrust()
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if name := c.trust.Load().node; t.node != name {
		return fmt.Errorf("cluster: the certificate is for node %q now, and this host is named %q: that needs a restart", t.node, name)
	}
	if err := c.gossip.setKeys(t.secrets); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	c.trust.Store(t)
	for _, co := range c.conns() {
		co.review(t)
	}
	c.cfg.Log.Info("secrets and certificates are read again", "secrets", c.Secrets())
	c.warnOfExpiry()
	return nil
}

// conns returns all connections.
func (c *Cluster) conns() []*conn {
	all := c.server.conns()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.links {
		if a := l.current.Load(); a != nil {
			all = append(all, a.conn)
		}
	}
	return all
}

// Secrets returns fingerprints of the secrets, that which is used first. Hosts with equal fingerprints have equal secrets.
func (c *Cluster) Secrets() (fingerprints []string) {
	for _, s := range c.trust.Load().secrets {
		fingerprints = append(fingerprints, s.print)
	}
	return fingerprints
}

// warnOfExpiry warns of a certificate that will soon be refused.
func (c *Cluster) warnOfExpiry() {
	t := c.trust.Load()
	if t.files && t.ends.Sub(c.cfg.Now()) < warnExpiry {
		c.cfg.Log.Warn("this host's certificate ends soon; the peers will refuse it then", "ends", t.ends, "file", c.cfg.TLSCert)
	}
}
