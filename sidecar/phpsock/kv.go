package phpsock

import (
	"context"

	"github.com/tinylib/msgp/msgp"

	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// kv has a command on the request's key decided.
func (c *conn) kv(m wire.Method, p *wire.Params, cmd *store.Command) (store.Result, error) {
	if !p.HasKey() {
		return store.Result{}, misused(m, "a key is needed")
	}
	r, err := c.do(cmd)
	if err == nil && r.Status == store.Refused {
		err = refusal(r)
	}
	return r, err
}

// kvCommand returns the connection's command for the request's key.
func (c *conn) kvCommand(op store.Op, p *wire.Params) *store.Command {
	return c.command(op, p.Bucket, p.Key)
}

// appendFound appends a value, or nil when there is none.
func appendFound(out []byte, r store.Result) []byte {
	if !r.Found {
		return msgp.AppendNil(out)
	}
	return msgp.AppendBytes(out, r.Value)
}

func (c *conn) kvGet(p *wire.Params, out []byte) ([]byte, error) {
	r, err := c.kv(wire.KVGet, p, c.kvCommand(store.OpGet, p))
	return appendFound(out, r), err
}

func (c *conn) kvGetDel(p *wire.Params, out []byte) ([]byte, error) {
	r, err := c.kv(wire.KVGetDel, p, c.kvCommand(store.OpGetDel, p))
	return appendFound(out, r), err
}

func (c *conn) kvMGet(p *wire.Params, out []byte) ([]byte, error) {
	limit := len(out) + c.s.cfg.MaxFrame
	out = msgp.AppendArrayHeader(out, uint32(len(p.Keys)))
	for _, key := range p.Keys {
		r, err := c.do(c.command(store.OpGet, p.Bucket, key))
		if err != nil {
			return out, err
		}
		if r.Status == store.Refused {
			return out, refusal(r)
		}
		if len(out)+len(r.Value) > limit {
			return out, wire.TooLargeError("the answer", len(out)+len(r.Value), c.s.cfg.MaxFrame)
		}
		out = appendFound(out, r)
	}
	return out, nil
}

func (c *conn) kvSet(p *wire.Params, out []byte) ([]byte, error) {
	cmd := c.kvCommand(store.OpSet, p)
	conditions := 0
	for _, set := range []struct {
		given bool
		means store.Condition
	}{{p.NX, store.IfAbsent}, {p.XX, store.IfPresent}, {p.HasIfEq(), store.IfEqual}} {
		if set.given {
			cmd.If = set.means
			conditions++
		}
	}
	switch {
	case !p.HasValue():
		return out, misused(wire.KVSet, "a value is needed")
	case conditions > 1:
		return out, misused(wire.KVSet, "give at most one of nx, xx and ifeq")
	case p.KeepTTL && p.TTL > 0:
		return out, misused(wire.KVSet, "give at most one of ttl_ms and keepttl")
	}
	cmd.Value, cmd.Match, cmd.TTL, cmd.KeepTTL, cmd.WantOld = p.Value, p.IfEq, p.TTL, p.KeepTTL, p.Get
	r, err := c.kv(wire.KVSet, p, cmd)
	if err != nil || !p.Get {
		return msgp.AppendBool(out, r.Done), err
	}
	out = msgp.AppendBool(msgp.AppendArrayHeader(out, 2), r.Done)
	return appendFound(out, r), nil
}

func (c *conn) kvSetNX(p *wire.Params, out []byte) ([]byte, error) {
	if !p.HasValue() {
		return out, misused(wire.KVSetNX, "a value is needed")
	}
	cmd := c.kvCommand(store.OpSet, p)
	cmd.Value, cmd.TTL, cmd.If = p.Value, p.TTL, store.IfAbsent
	r, err := c.kv(wire.KVSetNX, p, cmd)
	return msgp.AppendBool(out, r.Done), err
}

// count runs a command for key or for each of keys and appends how many it did or found.
func (c *conn) count(m wire.Method, op store.Op, p *wire.Params, out []byte) ([]byte, error) {
	keys := p.Keys
	if p.HasKey() {
		keys = append(keys, p.Key)
	}
	if len(keys) == 0 {
		return out, misused(m, "a key is needed")
	}
	n := 0
	for _, key := range keys {
		r, err := c.do(c.command(op, p.Bucket, key))
		if err != nil {
			return out, err
		}
		if r.Done || r.Found {
			n++
		}
	}
	return msgp.AppendInt(out, n), nil
}

func (c *conn) kvDel(p *wire.Params, out []byte) ([]byte, error) {
	return c.count(wire.KVDel, store.OpDel, p, out)
}

func (c *conn) kvExists(p *wire.Params, out []byte) ([]byte, error) {
	return c.count(wire.KVExists, store.OpTTL, p, out)
}

func (c *conn) kvDelIfEq(p *wire.Params, out []byte) ([]byte, error) {
	if !p.HasValue() {
		return out, misused(wire.KVDelIfEq, "a value is needed")
	}
	cmd := c.kvCommand(store.OpDel, p)
	cmd.If, cmd.Match = store.IfEqual, p.Value
	r, err := c.kv(wire.KVDelIfEq, p, cmd)
	return msgp.AppendBool(out, r.Done), err
}

func (c *conn) kvExpire(p *wire.Params, out []byte) ([]byte, error) {
	return c.expire(wire.KVExpire, p, c.kvCommand(store.OpExpire, p), out)
}

func (c *conn) kvExpireIfEq(p *wire.Params, out []byte) ([]byte, error) {
	if !p.HasValue() {
		return out, misused(wire.KVExpireIfEq, "a value is needed")
	}
	cmd := c.kvCommand(store.OpExpire, p)
	cmd.If, cmd.Match = store.IfEqual, p.Value
	return c.expire(wire.KVExpireIfEq, p, cmd, out)
}

// expire sets an expiry. A ttl_ms that is not above 0 changes nothing and is answered with false.
func (c *conn) expire(m wire.Method, p *wire.Params, cmd *store.Command, out []byte) ([]byte, error) {
	if p.TTL <= 0 {
		return msgp.AppendBool(out, false), nil
	}
	cmd.TTL = p.TTL
	r, err := c.kv(m, p, cmd)
	return msgp.AppendBool(out, r.Done), err
}

func (c *conn) kvPersist(p *wire.Params, out []byte) ([]byte, error) {
	r, err := c.kv(wire.KVPersist, p, c.kvCommand(store.OpExpire, p))
	return msgp.AppendBool(out, r.Done), err
}

func (c *conn) kvTTL(p *wire.Params, out []byte) ([]byte, error) {
	r, err := c.kv(wire.KVTTL, p, c.kvCommand(store.OpTTL, p))
	if !r.Found {
		r.N = -2
	}
	return msgp.AppendInt64(out, r.N), err
}

func (c *conn) kvIncrBy(p *wire.Params, out []byte) ([]byte, error) {
	cmd := c.kvCommand(store.OpIncr, p)
	switch string(p.Missing) {
	case "", "create":
	case "fail":
		cmd.If = store.IfPresent
	default:
		return out, misused(wire.KVIncrBy, "missing is %q; it can be create or fail", p.Missing)
	}
	cmd.Delta, cmd.TTL = 1, p.TTL
	if p.HasDelta() {
		cmd.Delta = p.Delta
	}
	if p.HasFloor() {
		floor := p.Floor
		cmd.Floor = &floor
	}
	r, err := c.kv(wire.KVIncrBy, p, cmd)
	if !r.Found {
		return msgp.AppendNil(out), err
	}
	return msgp.AppendInt64(out, r.N), err
}

func (c *conn) kvAppend(p *wire.Params, out []byte) ([]byte, error) {
	cmd := c.kvCommand(store.OpAppend, p)
	cmd.Value, cmd.Limit = p.Value, c.s.cfg.MaxFrame
	r, err := c.kv(wire.KVAppend, p, cmd)
	if r.Reason == store.TooLong {
		err = wire.TooLargeError("the value", int(r.N), cmd.Limit)
	}
	return msgp.AppendInt64(out, r.N), err
}

func (c *conn) kvStrlen(p *wire.Params, out []byte) ([]byte, error) {
	r, err := c.kv(wire.KVStrlen, p, c.kvCommand(store.OpStrlen, p))
	return msgp.AppendInt64(out, r.N), err
}

// The number of keys that a scan returns at a time: by default, and at most.
const (
	scanCount    = 1_000
	maxScanCount = 10_000
)

func (c *conn) kvScan(p *wire.Params, out []byte) ([]byte, error) {
	cmd := c.command(store.OpScan, p.Bucket, nil)
	cmd.Match, cmd.Cursor, cmd.Limit = p.Prefix, uint64(p.Cursor), scanCount
	if p.Count > 0 {
		cmd.Limit = int(min(p.Count, maxScanCount))
	}
	r, err := c.do(cmd)
	if err != nil {
		return out, err
	}
	out = msgp.AppendUint64(msgp.AppendArrayHeader(out, 2), r.Cursor)
	out = msgp.AppendArrayHeader(out, uint32(len(r.Keys)))
	for _, key := range r.Keys {
		out = msgp.AppendBytes(out, []byte(key))
	}
	return out, nil
}

func (c *conn) kvFlush(p *wire.Params, out []byte) ([]byte, error) {
	r, err := c.do(c.command(store.OpFlush, p.Bucket, nil))
	return msgp.AppendBool(out, r.Done), err
}

func (c *conn) kvWait(p *wire.Params, out []byte) ([]byte, error) {
	if !p.HasKey() {
		return out, misused(wire.KVWait, "a key is needed")
	}
	cmd, known, timeout := own(c.kvCommand(store.OpVersion, p)), uint64(p.Version), locker.Milliseconds(p.Timeout)
	answer := func(r store.Result, changed bool, out []byte) []byte {
		if !changed {
			return msgp.AppendNil(out)
		}
		out = appendFound(msgp.AppendString(msgp.AppendMapHeader(out, 2), "value"), r)
		return msgp.AppendUint64(msgp.AppendString(out, "version"), r.Version)
	}
	r, err := c.do(cmd)
	if err != nil || r.Version != known || timeout == 0 {
		return answer(r, r.Version != known, out), err
	}
	if c.tooManyWait() {
		return out, c.s.waitersError()
	}
	w := &wait{quota: &c.s.cfg.Tenant.Waiters, kept: keeps(cmd)}
	w.run = func(ctx context.Context, out []byte) ([]byte, error) {
		r, done, err := c.client.Watch(ctx, cmd, known, timeout)
		w.after = done
		if err == nil {
			err = w.pay(c.s.cfg.Tenant, len(r.Value))
		}
		if err != nil {
			return out, err
		}
		return answer(r, done != nil, out), nil
	}
	return out, w
}
