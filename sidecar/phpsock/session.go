package phpsock

import (
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/roster"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// maxID is the length of the longest session id, as in PHP's own handler.
const maxID = 256

// sessionCommand returns the connection's command for the session that p names.
func (c *conn) sessionCommand(op store.Op, p *wire.Params) (*store.Command, error) {
	if !validID(p.Key) {
		return nil, &wire.Error{
			Code: wire.Refused, Message: "the session id must be 1 to 256 of the characters A-Z a-z 0-9 , -",
			Details: wire.Pairs{{Key: "reason", Value: invalidID}},
		}
	}
	cmd := c.command(op, p.Prefix, p.Key)
	cmd.Token = p.Token
	return cmd, nil
}

func validID(id []byte) bool {
	if len(id) == 0 || len(id) > maxID {
		return false
	}
	for _, b := range id {
		switch {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == ',', b == '-':
		default:
			return false
		}
	}
	return true
}

func (c *conn) sessionOpen(p *wire.Params, out []byte) ([]byte, error) {
	cmd, err := c.sessionCommand(store.OpSessionOpen, p)
	if err != nil {
		return out, err
	}
	goOn := false
	switch string(p.Policy) {
	case "", "fail":
	case "unlocked", "readonly":
		goOn = true
	default:
		return out, misused(wire.SessionOpen, "policy is %q; it can be fail, unlocked or readonly", p.Policy)
	}
	cmd.Lease, cmd.Who, cmd.WantOld = p.Lease, c.whoRuns(p.Script), goOn
	who, id := cmd.Who, locker.Short(string(p.Key))
	return c.contended(cmd, p.Wait, out, func(o outcome, out []byte) ([]byte, error) {
		if o.Status == store.Busy {
			c.logBusy(id, who, o)
			if !goOn {
				return out, c.s.busy(o)
			}
		}
		return appendOpened(out, o), nil
	})
}

// appendOpened appends the result of a session.open.
func appendOpened(out []byte, o outcome) []byte {
	fields := uint32(5)
	if o.Holder != nil {
		fields++
	}
	out = msgp.AppendMapHeader(out, fields)
	out = msgp.AppendBytes(msgp.AppendString(out, "data"), o.Value)
	out = msgp.AppendBool(msgp.AppendString(out, "found"), o.Found)
	out = msgp.AppendUint64(msgp.AppendString(out, "fence"), o.Fence)
	out = msgp.AppendBool(msgp.AppendString(out, "locked"), o.Locked)
	out = msgp.AppendInt64(msgp.AppendString(out, "waited_ms"), o.waited.Milliseconds())
	if o.Holder != nil {
		out = wire.AppendPairs(msgp.AppendString(out, "holder"), roster.Holder(o.Holder, o.now))
	}
	return out
}

// logBusy says who did not get a session's lock, from whom, and after how long.
func (c *conn) logBusy(id string, who *store.Who, o outcome) {
	unlogged, now := c.s.busied.Now(time.Now())
	if !now {
		return
	}
	attrs := []any{
		"lock", id, "tenant", c.s.cfg.Tenant.Name, "pid", who.PID, "script", who.Script,
		"waited", o.waited.Round(time.Millisecond).String(), "waiters", o.waiters, "queue_full", o.full, "tenant_full", o.over, "unlogged", unlogged,
	}
	if o.Holder != nil {
		attrs = append(attrs, "holder_pid", o.Holder.Who.PID, "holder_script", o.Holder.Who.Script)
	}
	c.s.cfg.Log.Warn("session lock not granted", attrs...)
}

func (c *conn) sessionCommit(p *wire.Params, out []byte) ([]byte, error) {
	cmd, err := c.sessionCommand(store.OpSessionCommit, p)
	switch {
	case err != nil:
		return out, err
	case p.Touch == p.HasValue():
		return out, misused(wire.SessionCommit, "give either data or touch")
	case p.TTL < 1:
		return out, misused(wire.SessionCommit, "ttl_ms is %d; the least is 1", p.TTL)
	}
	cmd.Fence, cmd.Value, cmd.TTL = uint64(p.Fence), p.Value, p.TTL
	cmd.Touch, cmd.Release = p.Touch, p.Release
	r, err := c.do(cmd)
	if err != nil {
		return out, err
	}
	if r.Status == store.Refused {
		c.s.cfg.Metrics.refusals.WithLabelValues(r.Reason.String()).Inc()
		c.logDenied(cmd, r.Reason)
		return out, refusal(r)
	}
	out = msgp.AppendMapHeader(out, 2)
	out = msgp.AppendBool(msgp.AppendString(out, "stored"), r.Done)
	return msgp.AppendBool(msgp.AppendString(out, "released"), r.Released), nil
}

// logDenied says whose write of a session was refused, and why.
func (c *conn) logDenied(cmd *store.Command, why store.Reason) {
	if unlogged, now := c.s.denied.Now(time.Now()); now {
		c.s.cfg.Log.Warn("session write refused", "lock", locker.Short(string(cmd.Key)), "tenant", c.s.cfg.Tenant.Name,
			"pid", c.who.PID, "script", c.who.Script, "fence", cmd.Fence, "why", why.String(), "unlogged", unlogged)
	}
}

func (c *conn) sessionRelease(p *wire.Params, out []byte) ([]byte, error) {
	cmd, err := c.sessionCommand(store.OpSessionRelease, p)
	if err == nil && len(p.Token) == 0 {
		err = misused(wire.SessionRelease, "a token is needed")
	}
	if err != nil {
		return out, err
	}
	r, err := c.do(cmd)
	return msgp.AppendBool(out, r.Done), err
}

func (c *conn) sessionDestroy(p *wire.Params, out []byte) ([]byte, error) {
	cmd, err := c.sessionCommand(store.OpSessionDestroy, p)
	if err != nil {
		return out, err
	}
	r, err := c.do(cmd)
	return msgp.AppendBool(out, r.Found), err
}

func (c *conn) sessionExists(p *wire.Params, out []byte) ([]byte, error) {
	cmd, err := c.sessionCommand(store.OpSessionExists, p)
	if err != nil {
		return out, err
	}
	r, err := c.do(cmd)
	return msgp.AppendBool(out, r.Found), err
}
