package phpsock

import (
	"github.com/tinylib/msgp/msgp"

	"github.com/coatcheck/coatcheck/sidecar/roster"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// lockCommand returns the connection's command for the lock that p names. need says that a token must be given.
func (c *conn) lockCommand(m wire.Method, op store.Op, p *wire.Params, need bool) (*store.Command, error) {
	if !p.HasKey() {
		return nil, misused(m, "a name is needed")
	}
	if need && len(p.Token) == 0 {
		return nil, misused(m, "a token is needed")
	}
	cmd := c.command(op, p.Bucket, p.Key)
	cmd.Token, cmd.Lease = p.Token, p.Lease
	return cmd, nil
}

func (c *conn) lockAcquire(p *wire.Params, out []byte) ([]byte, error) {
	cmd, err := c.lockCommand(wire.LockAcquire, store.OpLockAcquire, p, true)
	if err != nil {
		return out, err
	}
	cmd.Shared, cmd.Bound, cmd.Who = p.Shared, p.Bound, c.whoRuns(p.Script)
	return c.contended(cmd, p.Wait, out, func(o outcome, out []byte) ([]byte, error) {
		if o.Status == store.Busy {
			return out, c.s.busy(o)
		}
		out = msgp.AppendMapHeader(out, 2)
		out = msgp.AppendUint64(msgp.AppendString(out, "fence"), o.Fence)
		return msgp.AppendInt64(msgp.AppendString(out, "waited_ms"), o.waited.Milliseconds()), nil
	})
}

func (c *conn) lockRenew(p *wire.Params, out []byte) ([]byte, error) {
	cmd, err := c.lockCommand(wire.LockRenew, store.OpLockRenew, p, true)
	if err != nil {
		return out, err
	}
	r, err := c.do(cmd)
	switch {
	case err != nil:
		return out, err
	case r.Status == store.Refused:
		return out, refusal(r)
	}
	return msgp.AppendUint64(msgp.AppendString(msgp.AppendMapHeader(out, 1), "fence"), r.Fence), nil
}

func (c *conn) lockRelease(p *wire.Params, out []byte) ([]byte, error) {
	cmd, err := c.lockCommand(wire.LockRelease, store.OpLockRelease, p, true)
	if err != nil {
		return out, err
	}
	r, err := c.do(cmd)
	return msgp.AppendBool(out, r.Done), err
}

func (c *conn) lockForceRelease(p *wire.Params, out []byte) ([]byte, error) {
	cmd, err := c.lockCommand(wire.LockForceRelease, store.OpLockForce, p, false)
	if err != nil {
		return out, err
	}
	r, err := c.do(cmd)
	if err == nil && r.Done {
		c.logForced(p)
	}
	return msgp.AppendBool(out, r.Done), err
}

func (c *conn) lockInfo(p *wire.Params, out []byte) ([]byte, error) {
	cmd, err := c.lockCommand(wire.LockInfo, store.OpLockInfo, p, false)
	if err != nil {
		return out, err
	}
	r, err := c.do(cmd)
	if err != nil || !r.Found {
		return msgp.AppendNil(out), err
	}
	return wire.AppendPairs(out, wire.Pairs{
		{Key: "shared", Value: r.Locks[0].Shared},
		{Key: "owned", Value: r.Done},
		{Key: "waiters", Value: c.s.locker.Waiters(cmd)},
		{Key: "holders", Value: holders(r.Locks[0], cmd.Now)},
	}), nil
}

func (c *conn) lockList(p *wire.Params, out []byte) ([]byte, error) {
	cmd := c.command(store.OpListLocks, p.Bucket, nil)
	cmd.Match, cmd.Limit = p.Prefix, listed
	if p.Limit > 0 {
		cmd.Limit = int(min(p.Limit, maxListed))
	}
	r, err := c.do(cmd)
	if err != nil {
		return out, err
	}
	list := make([]wire.Pairs, 0, len(r.Locks))
	for _, l := range r.Locks {
		list = append(list, wire.Pairs{
			{Key: "name", Value: l.Name},
			{Key: "shared", Value: l.Shared},
			{Key: "holders", Value: holders(l, cmd.Now)},
		})
	}
	return wire.AppendList(out, list), nil
}

func holders(l store.LockInfo, now int64) []wire.Pairs {
	list := make([]wire.Pairs, 0, len(l.Holds))
	for i := range l.Holds {
		list = append(list, roster.Holder(&l.Holds[i], now))
	}
	return list
}
