package locker

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// How long the release of a lock may take whose client has gone or forgot it: at first, while a request may wait for that, and when it is tried
// again because nobody knows whether it arrived, and how long to wait before.
const (
	firstRelease = time.Second
	laterRelease = 5 * time.Second
	releasePause = 500 * time.Millisecond
)

// Client is one connection, to which bound locks belong. It is safe for concurrent use.
type Client struct {
	l    *Locker
	gone chan struct{} // closed by Close and Abandon

	looks chan struct{} // bounds the watches that look, or whose result is in use, to one

	mu     sync.Mutex
	closed bool               // guarded by mu
	held   map[heldName]*held // guarded by mu
	// Bound locks that may have been granted, for their owner did not answer. They are not renewed, but released with the others; guarded by mu.
	doubted map[heldName]*held

	// One timer serves all locks of the client, and stays armed over many of them: arming one for each grant would
	// cost more than the grant.
	timer *time.Timer // guarded by mu
	armed time.Time   // when timer fires; zero: it does not; guarded by mu
}

// heldName is a lock as one token holds it.
type heldName struct {
	name
	token string
}

// held is a bound lock that is being renewed.
type held struct {
	cmd   store.Command // of the renewal
	since time.Time
	lease time.Duration
	asked time.Time   // when the client last asked for it itself, by acquiring or renewing; guarded by Client.mu
	due   time.Time   // of the next renewal; guarded by Client.mu
	asks  bool        // for its renewal at this moment; guarded by Client.mu
	swept atomic.Bool // its client or request has ended, and it is being released
}

// Do has a command decided without waiting. An OpSessionOpen or OpLockAcquire finds the lock Busy also
// when others queue for it, unless its token has it already.
func (c *Client) Do(ctx context.Context, cmd *store.Command) (store.Result, error) {
	switch cmd.Op {
	case store.OpSessionOpen:
		if len(cmd.Token) == 0 {
			return c.l.do(ctx, cmd)
		}
		return c.try(ctx, cmd)
	case store.OpLockAcquire:
		return c.try(ctx, cmd)
	}
	if cmd.Op == store.OpLockRenew && cmd.Lease == 0 && c.keepsNamed(heldNameOf(cmd)) {
		cmd.Lease = c.l.boundLease(0) // a bound lock has a lease, whoever renews it
	}
	r, err := c.l.do(ctx, cmd)
	if err == nil {
		c.forgetEnded(cmd, r)
		c.noteRenewed(cmd, r)
	}
	return r, err
}

// forgetEnded stops the renewal of a lock that the command ended.
func (c *Client) forgetEnded(cmd *store.Command, r store.Result) {
	switch cmd.Op {
	case store.OpSessionCommit:
		if cmd.Release && (r.Done || r.Status == store.Refused) {
			c.forget(cmd)
		}
	case store.OpSessionRelease, store.OpSessionDestroy, store.OpLockRelease:
		c.forget(cmd)
	}
}

// keepsNamed says whether a lock is bound to this client.
func (c *Client) keepsNamed(n heldName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[n] != nil
}

// noteRenewed begins the longest hold anew: a client that renews by itself is alive.
func (c *Client) noteRenewed(cmd *store.Command, r store.Result) {
	if cmd.Op != store.OpLockRenew || r.Status != store.OK {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.held[heldNameOf(cmd)]; h != nil {
		h.asked = time.Now()
	}
}

// try asks for a lock unless others queue for it.
func (c *Client) try(ctx context.Context, cmd *store.Command) (store.Result, error) {
	if c.l.isDraining() {
		return store.Result{}, ErrShuttingDown
	}
	cmd.Queued = c.l.queued(cmd)
	return c.attempt(ctx, cmd)
}

// attempt asks for a lock and keeps a granted one alive.
func (c *Client) attempt(ctx context.Context, cmd *store.Command) (store.Result, error) {
	bound := cmd.Bound || cmd.Op == store.OpSessionOpen
	if bound {
		cmd.Bound = true
		cmd.Lease = c.l.boundLease(cmd.Lease)
	}
	r, err := c.l.do(ctx, cmd)
	if bound && errors.Is(err, arbiter.ErrUnreachable) {
		c.doubt(ctx, cmd)
	}
	if err != nil || r.Status != store.OK || !bound {
		return r, err
	}
	if !c.keep(ctx, cmd) {
		c.lapse(&held{cmd: renewal(cmd), since: time.Now()})
		return store.Result{}, ErrClosed
	}
	return r, nil
}

// doubt notes a bound lock that may have been granted although no answer came, so that it is released if the client does not do it.
func (c *Client) doubt(ctx context.Context, cmd *store.Command) {
	h := &held{cmd: renewal(cmd), since: time.Now()}
	if !c.noteDoubt(ctx, heldNameOf(cmd), h) {
		c.lapse(h)
	}
}

// noteDoubt returns false when the client has closed, or the request whose ctx it is has ended.
func (c *Client) noteDoubt(ctx context.Context, n heldName, h *held) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || ctx.Err() != nil {
		return false
	}
	if c.doubted == nil {
		c.doubted = make(map[heldName]*held)
	}
	c.doubted[n] = h
	return true
}

// renewalPause is how long after a renewal that nobody decided the next one is tried, at most.
const renewalPause = time.Second

// minLease is the shortest lease of a bound lock: it is renewed three times in that time.
const minLease = 100 * time.Millisecond

// boundLease returns the lease of a bound lock, in milliseconds: what the client asked for, within minLease and the longest hold.
func (l *Locker) boundLease(ms int64) int64 {
	if ms <= 0 {
		ms = l.cfg.Lease.Milliseconds()
	}
	ms = max(ms, minLease.Milliseconds())
	if l.cfg.MaxHold > 0 {
		ms = min(ms, l.cfg.MaxHold.Milliseconds())
	}
	return ms
}

// renewal returns the command that renews what cmd acquired.
func renewal(cmd *store.Command) store.Command {
	op := store.OpLockRenew
	if cmd.Op == store.OpSessionOpen {
		op = store.OpSessionRenew
	}
	return store.Command{
		Op: op, Space: cmd.Space, Key: append([]byte(nil), cmd.Key...),
		Token: append([]byte(nil), cmd.Token...), Lease: cmd.Lease, Who: cmd.Who,
	}
}

func heldNameOf(cmd *store.Command) heldName {
	return heldName{name: nameOf(cmd), token: string(cmd.Token)}
}

// keep begins to renew a granted lock. It returns false when the client has closed, or the request whose ctx it is has ended.
func (c *Client) keep(ctx context.Context, cmd *store.Command) bool {
	now := time.Now()
	h := &held{cmd: renewal(cmd), since: now, asked: now, lease: Milliseconds(cmd.Lease)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || ctx.Err() != nil {
		return false
	}
	n := heldNameOf(cmd)
	if old := c.held[n]; old != nil { // a retry of the same acquisition
		h.since = old.since
	} else {
		c.l.held.Add(1)
	}
	c.held[n] = h
	delete(c.doubted, n)
	h.due = now.Add(h.lease / 3)
	if c.l.cfg.MaxHold > 0 && (c.armed.IsZero() || h.due.Before(c.armed)) {
		c.arm(h.due)
	}
	return true
}

// arm sets the timer. c.mu is held.
func (c *Client) arm(at time.Time) {
	c.armed = at
	if c.timer == nil {
		c.timer = time.AfterFunc(time.Until(at), c.renewDue)
	} else {
		c.timer.Reset(time.Until(at))
	}
}

// renewDue renews the locks that are due, each by itself, for their owners may be different hosts, and arms the timer for the others.
// Locks that are granted meanwhile leave that to it, for armed is in the past.
func (c *Client) renewDue() {
	now := time.Now()
	due := make(map[heldName]*held)
	c.mu.Lock()
	for n, h := range c.held {
		if !h.asks && !h.due.After(now) {
			h.asks = true
			due[n] = h
		}
	}
	c.rearm()
	c.mu.Unlock()
	for n, h := range due {
		if len(due) == 1 {
			c.renewOne(n, h) // the timer's goroutine does
		} else {
			go c.renewOne(n, h)
		}
	}
}

// renewOne renews a lock that was marked as asking for it.
func (c *Client) renewOne(n heldName, h *held) {
	c.renew(n, h)
	c.mu.Lock()
	defer c.mu.Unlock()
	h.asks = false
	c.rearm()
}

// rearm arms the timer for the next lock that is due. Those that are being renewed come back by themselves. c.mu is held.
func (c *Client) rearm() {
	var next time.Time
	for _, h := range c.held {
		if !h.asks && (next.IsZero() || h.due.Before(next)) {
			next = h.due
		}
	}
	if c.armed = next; !next.IsZero() {
		c.arm(next)
	}
}

// forget stops renewing the lock that the command names.
func (c *Client) forget(cmd *store.Command) {
	n := heldNameOf(cmd)
	c.mu.Lock()
	h := c.held[n]
	delete(c.held, n)
	delete(c.doubted, n)
	c.mu.Unlock()
	if h != nil {
		c.l.ended(h)
	}
}

// renew lengthens a lease, unless the lock was forgotten meanwhile or has been held too long.
func (c *Client) renew(n heldName, h *held) {
	asked, kept := c.lastAsked(n, h)
	if !kept {
		return
	}
	left := c.l.cfg.MaxHold - time.Since(asked)
	if left <= 0 {
		c.l.lost(h, "it reached lock.max_hold")
		c.forget(&h.cmd)
		return
	}
	cmd := h.cmd
	cmd.Lease = max(1, min(h.lease, left).Milliseconds())
	ctx, cancel := context.WithTimeout(context.Background(), h.lease/3)
	defer cancel()
	r, err := c.l.do(ctx, &cmd)
	next := min(h.lease, left) / 3
	if err != nil {
		c.l.cfg.Log.Warn("could not renew a lock, trying again",
			"lock", Short(n.key), "token", Short(n.token), "error", err)
		next = min(next, renewalPause)
	}
	if r.Status == store.Refused {
		if c.keeps(n, h) { // else it was released while the renewal was on its way
			c.l.lost(h, "its lease had ended")
			c.forget(&h.cmd)
		}
		return
	}
	if h.swept.Load() { // the renewal may have overtaken the release and given a dead client its session's lock back
		c.lapse(h)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h.due = time.Now().Add(max(time.Millisecond, next))
}

// keeps says whether h is still being renewed.
func (c *Client) keeps(n heldName, h *held) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[n] == h
}

// lastAsked returns when the client last asked for h itself, and whether h is still being renewed.
func (c *Client) lastAsked(n heldName, h *held) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return h.asked, c.held[n] == h
}

// ended records that a bound lock is no longer held.
func (l *Locker) ended(h *held) {
	l.held.Add(-1)
	l.cfg.Metrics.Hold.Observe(time.Since(h.since).Seconds())
}

// lost reports a lock that its holder no longer has, or soon will not have.
func (l *Locker) lost(h *held, why string) {
	l.cfg.Metrics.Lost.Inc()
	l.cfg.Log.Warn("lock is renewed no more", append(h.attrs(), "why", why)...)
}

// attrs describes a held lock in the log.
func (h *held) attrs() []any {
	attrs := []any{
		"lock", Short(string(h.cmd.Key)), "tenant", h.cmd.Space.Tenant,
		"held", time.Since(h.since).Round(time.Millisecond).String(),
	}
	if w := h.cmd.Who; w != nil {
		attrs = append(attrs, "pid", w.PID, "script", w.Script)
	}
	return attrs
}

// Short shortens a session id or token for logs and lists: it is a credential.
func Short(s string) string {
	const shown = 6
	if len(s) <= shown {
		return s
	}
	return s[:shown] + "…"
}

// EndRequest releases the bound locks that the client's request left behind. The caller first cancels the
// contexts of the request's waits: one that is being granted its lock is released too.
func (c *Client) EndRequest() {
	c.mu.Lock()
	left, doubted := c.held, c.doubted
	c.held, c.doubted = make(map[heldName]*held), nil
	c.mu.Unlock()
	c.releaseAll(left, doubted)
}

// Close says that the client has gone: its waits end and its bound locks are released.
func (c *Client) Close() { c.releaseAll(c.shut()) }

// Abandon ends the client like Close but leaves its locks to their leases, for a daemon that stops.
func (c *Client) Abandon() {
	left, _ := c.shut()
	for _, h := range left {
		c.l.ended(h)
	}
}

// shut marks the client as closed and returns what it held, and what it may hold.
func (c *Client) shut() (left, doubted map[heldName]*held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		close(c.gone)
	}
	left, doubted = c.held, c.doubted
	c.held, c.doubted = nil, nil
	return left, doubted
}

// releaseAll releases locks at the same time: an owner that does not answer must not delay the others.
func (c *Client) releaseAll(left, doubted map[heldName]*held) {
	for _, h := range left {
		h.swept.Store(true)
		c.l.ended(h)
	}
	if len(left)+len(doubted) == 0 {
		return
	}
	if len(doubted) > 0 {
		all := maps.Clone(doubted)
		maps.Copy(all, left)
		left = all
	}
	var released sync.WaitGroup
	for _, h := range left {
		if len(left) == 1 {
			c.lapse(h)
		} else {
			released.Go(func() { c.lapse(h) })
		}
	}
	released.Wait()
}

// lapse releases a lock on behalf of a client that cannot. While it may not be done, it is tried again, without the caller, until
// the lease must have ended.
func (c *Client) lapse(h *held) {
	err := c.l.lapse(h, firstRelease)
	if err == nil {
		return
	}
	again := errors.Is(err, arbiter.ErrUnreachable) || errors.Is(err, arbiter.ErrNotDecided) || errors.Is(err, arbiter.ErrCannotKeep)
	c.l.cfg.Log.Warn("could not release the lock of a client that has gone; its lease will end",
		"lock", Short(string(h.cmd.Key)), "token", Short(string(h.cmd.Token)), "trying_again", again, "error", err)
	if again {
		go c.l.lapseLater(h, time.Now().Add(Milliseconds(h.cmd.Lease)))
	}
}

// lapseLater tries until the lock is known not to be held, the lease must have ended, or the daemon stops.
func (l *Locker) lapseLater(h *held, until time.Time) {
	pause := time.NewTicker(releasePause)
	defer pause.Stop()
	for time.Now().Before(until) {
		select {
		case <-pause.C:
		case <-l.draining:
			return
		}
		if l.lapse(h, laterRelease) == nil {
			return
		}
	}
}

// lapse asks once.
func (l *Locker) lapse(h *held, limit time.Duration) error {
	cmd := h.cmd
	if cmd.Op == store.OpSessionRenew {
		cmd.Op = store.OpSessionLapse
	} else {
		cmd.Op = store.OpLockRelease
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	r, err := l.do(ctx, &cmd)
	if err == nil && r.Done {
		l.cfg.Metrics.Swept.Inc()
		if unlogged, now := l.leftover.Now(cmd.Space.Tenant, time.Now()); now {
			l.cfg.Log.Info("lock released for a client that left it behind", append(h.attrs(), "unlogged", unlogged)...)
		}
	}
	return err
}
