package phpsock

import (
	"context"
	"errors"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/tenant"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// handler serves one method: it appends the result to out.
type handler struct {
	serve func(c *conn, p *wire.Params, out []byte) ([]byte, error)
	when  availability
	ends  bool // it ends what has begun: it is counted to the tenant's rate and never refused for it
}

// endsWith says whether a request with these parameters ends something. A commit without a token does not: it has no lock to
// give back.
func (h *handler) endsWith(p *wire.Params, m wire.Method) bool {
	return h.ends && (m != wire.SessionCommit || len(p.Token) > 0)
}

// availability says in which phases of the server a method is served.
type availability uint8

const (
	whileServing availability = iota // neither starting nor draining
	untilClosed                      // and while draining: it only ends what has begun
	always
)

// availableIn says why the method is not served in phase p, or nil.
func (h *handler) availableIn(p phase) error {
	switch {
	case p == starting && h.when != always:
		return ErrStarting
	case p == draining && h.when == whileServing:
		return locker.ErrShuttingDown
	}
	return nil
}

// handlers is the table of methods.
var handlers = [wire.Unknown]handler{
	wire.Hello:            {serve: (*conn).hello, when: always, ends: true},
	wire.ServerPing:       {serve: (*conn).ping, when: always},
	wire.ServerStatus:     {serve: (*conn).status, when: always},
	wire.ServerLocks:      {serve: (*conn).serverLocks, when: untilClosed},
	wire.ServerSessions:   {serve: (*conn).serverSessions, when: untilClosed},
	wire.ServerEndRequest: {serve: (*conn).endRequest, when: always, ends: true},

	wire.ClusterMembers: {serve: (*conn).clusterMembers, when: always},
	wire.ClusterJoin:    {serve: (*conn).clusterJoin},
	wire.ClusterLeave:   {serve: (*conn).clusterLeave},
	wire.ClusterForget:  {serve: (*conn).clusterForget, when: untilClosed},
	wire.ClusterReload:  {serve: (*conn).clusterReload, when: always},

	wire.SessionOpen:         {serve: (*conn).sessionOpen},
	wire.SessionCommit:       {serve: (*conn).sessionCommit, when: untilClosed, ends: true},
	wire.SessionRelease:      {serve: (*conn).sessionRelease, when: untilClosed, ends: true},
	wire.SessionDestroy:      {serve: (*conn).sessionDestroy, when: untilClosed, ends: true},
	wire.SessionExists:       {serve: (*conn).sessionExists},
	wire.SessionForceRelease: {serve: (*conn).sessionForceRelease, when: untilClosed, ends: true},

	wire.LockAcquire:      {serve: (*conn).lockAcquire},
	wire.LockRenew:        {serve: (*conn).lockRenew, when: untilClosed, ends: true},
	wire.LockRelease:      {serve: (*conn).lockRelease, when: untilClosed, ends: true},
	wire.LockInfo:         {serve: (*conn).lockInfo},
	wire.LockList:         {serve: (*conn).lockList},
	wire.LockForceRelease: {serve: (*conn).lockForceRelease, ends: true},

	wire.KVGet:        {serve: (*conn).kvGet},
	wire.KVMGet:       {serve: (*conn).kvMGet},
	wire.KVSet:        {serve: (*conn).kvSet},
	wire.KVSetNX:      {serve: (*conn).kvSetNX},
	wire.KVDel:        {serve: (*conn).kvDel},
	wire.KVDelIfEq:    {serve: (*conn).kvDelIfEq, when: untilClosed, ends: true},    // a value can be a lock's token:
	wire.KVExpireIfEq: {serve: (*conn).kvExpireIfEq, when: untilClosed, ends: true}, // these release and renew it
	wire.KVExpire:     {serve: (*conn).kvExpire},
	wire.KVPersist:    {serve: (*conn).kvPersist},
	wire.KVTTL:        {serve: (*conn).kvTTL},
	wire.KVIncrBy:     {serve: (*conn).kvIncrBy},
	wire.KVAppend:     {serve: (*conn).kvAppend},
	wire.KVGetDel:     {serve: (*conn).kvGetDel},
	wire.KVExists:     {serve: (*conn).kvExists},
	wire.KVStrlen:     {serve: (*conn).kvStrlen},
	wire.KVScan:       {serve: (*conn).kvScan},
	wire.KVFlush:      {serve: (*conn).kvFlush},
	wire.KVWait:       {serve: (*conn).kvWait},
}

func (c *conn) hello(p *wire.Params, out []byte) ([]byte, error) {
	if p.Version != wire.Version {
		return out, misused(wire.Hello, "this daemon speaks version %d of the protocol, not %d; update the older side", wire.Version, p.Version)
	}
	who := store.Who{PID: c.peer.pid, SAPI: string(p.SAPI)}
	if who.PID == 0 { // the client lives in another PID namespace
		who.PID = int(p.PID)
	}
	c.who = &who
	c.greeted = true
	return wire.AppendPairs(out, wire.Pairs{
		{Key: "version", Value: wire.Version},
		{Key: "server", Value: c.s.cfg.Version},
		{Key: "max_frame", Value: c.s.cfg.MaxFrame},
	}), nil
}

func (c *conn) ping(_ *wire.Params, out []byte) ([]byte, error) {
	return msgp.AppendBool(out, true), nil
}

func (c *conn) endRequest(_ *wire.Params, out []byte) ([]byte, error) {
	c.dropWaits()
	c.client.EndRequest()
	return msgp.AppendNil(out), nil
}

// status waits, for the daemon asks the php-fpm pool how it is.
func (c *conn) status(_ *wire.Params, out []byte) ([]byte, error) {
	return out, &wait{run: func(ctx context.Context, out []byte) ([]byte, error) {
		status, err := c.s.cfg.Status(ctx)
		return wire.AppendPairs(out, status), err
	}}
}

// outcome is what became of asking for a lock.
type outcome struct {
	store.Result
	now     int64 // when it was decided, ms
	waited  time.Duration
	waiters int  // others who wait for the lock, when it is Busy
	full    bool // the queue was full
	over    bool // too many requests of the tenant wait, for whatever
}

// contended asks for a lock and has the outcome answered: now or, when the lock is busy and the client is
// willing to wait, later.
func (c *conn) contended(cmd *store.Command, waitMS int64, out []byte, answer func(outcome, []byte) ([]byte, error)) ([]byte, error) {
	r, err := c.do(cmd)
	if errors.Is(err, arbiter.ErrNotDecided) && waitMS > 0 && len(cmd.Token) > 0 && !c.tooManyWait() {
		return out, c.wait(own(cmd), locker.Milliseconds(waitMS), answer) // its owner is changing
	}
	if err != nil {
		return out, err
	}
	if r.Status == store.Refused {
		return out, refusal(r)
	}
	o := outcome{Result: r, now: cmd.Now}
	if r.Status == store.Busy {
		if waitMS > 0 {
			if o.over = c.tooManyWait(); !o.over {
				return out, c.wait(own(cmd), locker.Milliseconds(waitMS), answer)
			}
		}
		o.waiters = c.s.locker.Waiters(cmd)
	}
	return answer(o, out)
}

// tooManyWait takes a place for a wait, which gives it back when it is done, or says that there is none.
func (c *conn) tooManyWait() bool {
	t := c.s.cfg.Tenant
	if t.Waiters.Take(1) {
		return false
	}
	c.s.refused(tenant.Waiters, "wait refused: too many requests of the tenant wait", "pid", c.who.PID, "limit", t.Waiters.Limit())
	return true
}

// wait returns the wait for a busy lock.
func (c *conn) wait(cmd *store.Command, patience time.Duration, answer func(outcome, []byte) ([]byte, error)) *wait {
	w := &wait{quota: &c.s.cfg.Tenant.Waiters, kept: keeps(cmd)}
	w.run = func(ctx context.Context, out []byte) ([]byte, error) {
		began := time.Now()
		r, err := c.client.Wait(ctx, cmd, patience)
		full := errors.Is(err, locker.ErrQueueFull)
		if err != nil && !full {
			return out, err
		}
		if r.Status == store.Refused {
			return out, refusal(r)
		}
		if err := w.pay(c.s.cfg.Tenant, len(r.Value)); err != nil {
			return out, err
		}
		o := outcome{Result: r, now: cmd.Now, waited: time.Since(began), full: full}
		if r.Status == store.Busy {
			o.waiters = c.s.locker.Waiters(cmd)
		}
		return answer(o, out)
	}
	return w
}
