package phpsock

import (
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/roster"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// The number of locks or sessions in one answer: by default, and at most.
const (
	listed    = 1_000
	maxListed = 10_000
)

// listing returns the connection's command that lists what begins with match, in all buckets of its tenant.
func (c *conn) listing(op store.Op, match []byte, limit int64) *store.Command {
	cmd := c.command(op, nil, nil)
	cmd.Match, cmd.Limit = match, listed
	if limit > 0 {
		cmd.Limit = int(min(limit, maxListed))
	}
	return cmd
}

func (c *conn) serverLocks(p *wire.Params, out []byte) ([]byte, error) {
	cmd := c.listing(store.OpListHeld, nil, p.Limit)
	r, err := c.do(cmd)
	if err != nil {
		return out, err
	}
	list := make([]wire.Pairs, 0, len(r.Locks))
	for _, l := range r.Locks {
		row := roster.Lock(l, cmd.Now)
		list = append(list, append(row, wire.Pair{Key: "waiters", Value: c.s.locker.Waiters(acquisition(l))}))
	}
	return wire.AppendList(out, list), nil
}

// acquisition returns a command that would wait for the lock.
func acquisition(l store.LockInfo) *store.Command {
	op := store.OpLockAcquire
	if l.Session {
		op = store.OpSessionOpen
	}
	return &store.Command{Op: op, Space: l.Space, Key: []byte(l.Name)}
}

// short says whether an id may be a beginning: no longer than what lists show of one. If longer beginnings matched, ids
// could be found out letter by letter.
func short(id []byte) bool { return locker.Short(string(id)) == string(id) }

func (c *conn) serverSessions(p *wire.Params, out []byte) ([]byte, error) {
	cmd := c.listing(store.OpListSession, p.Key, p.Limit)
	r, err := c.do(cmd)
	if err != nil {
		return out, err
	}
	list := make([]wire.Pairs, 0, len(r.Sessions))
	for _, s := range r.Sessions {
		if short(p.Key) || s.ID == string(p.Key) {
			list = append(list, roster.Session(s, cmd.Now))
		}
	}
	return wire.AppendList(out, list), nil
}

func (c *conn) sessionForceRelease(p *wire.Params, out []byte) ([]byte, error) {
	cmd, err := c.sessionCommand(store.OpSessionForce, p)
	if err != nil {
		return out, err
	}
	r, err := c.do(cmd)
	if err == nil && !r.Done && short(p.Key) {
		r, err = c.forceBeginning(p)
	}
	if err == nil && r.Done {
		c.logForced(p)
	}
	return msgp.AppendBool(out, r.Done), err
}

// forceBeginning ends the lease of the one session whose id begins as asked.
func (c *conn) forceBeginning(p *wire.Params) (store.Result, error) {
	held, err := c.do(c.listing(store.OpListHeld, p.Key, maxListed))
	if err != nil {
		return held, err
	}
	var id string
	for _, l := range held.Locks {
		if !l.Session || l.Space.Bucket != string(p.Prefix) {
			continue
		}
		if id != "" {
			return store.Result{}, &wire.Error{
				Code: wire.Refused, Message: "the locks of more than one session begin so; give more of the id",
				Details: wire.Pairs{{Key: "reason", Value: ambiguous}},
			}
		}
		id = l.Name
	}
	if id == "" {
		return store.Result{}, nil
	}
	return c.do(c.command(store.OpSessionForce, p.Prefix, []byte(id)))
}

// logForced says that an operator released a lock.
func (c *conn) logForced(p *wire.Params) {
	if unlogged, now := c.s.forced.Now(time.Now()); now {
		c.s.cfg.Log.Warn("lock released by force", "lock", locker.Short(string(p.Key)),
			"tenant", c.s.cfg.Tenant.Name, "pid", c.who.PID, "uid", c.peer.uid, "unlogged", unlogged)
	}
}
