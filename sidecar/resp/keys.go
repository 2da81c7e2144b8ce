package resp

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strconv"

	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/tenant"
)

// one has a store command decided outside of a plan. When it fails it answers why.
func (c *conn) one(cmd *store.Command) (store.Result, bool) {
	r, err := c.client.Do(context.Background(), cmd)
	switch {
	case err != nil:
		c.w.fail(undecided(err))
	case r.Status != store.OK:
		c.w.fail(refusal(&r))
	default:
		return r, true
	}
	return r, false
}

func replyType(c *conn, q *call) { c.w.simple(typeOf(&q.rs[0])) }

// typeOf names what OpTTL found.
func typeOf(r *store.Result) string {
	switch {
	case !r.Found:
		return "none"
	case r.Hash:
		return "hash"
	}
	return "string"
}

// planRename returns the plan of RENAME and RENAMENX.
func planRename(condition store.Condition) func(*conn, *call) failure {
	return func(c *conn, q *call) failure {
		cmd := c.add(store.OpRename, q.args[1])
		cmd.NewKey, cmd.If = q.args[2], condition
		return ""
	}
}

func replyRename(c *conn, q *call) {
	if !q.rs[0].Found {
		c.w.fail(errNoKey)
		return
	}
	c.w.ok()
}

func replyRenameNX(c *conn, q *call) {
	if !q.rs[0].Found {
		c.w.fail(errNoKey)
		return
	}
	c.w.flag(q.rs[0].Done)
}

// flushMode reads the options ASYNC and SYNC, which make no difference: a flush takes no time.
func flushMode(q *call) failure {
	if len(q.args) > 2 || len(q.args) == 2 && !is(q.args[1], "async") && !is(q.args[1], "sync") {
		return errSyntax
	}
	return ""
}

func planFlushDB(c *conn, q *call) failure {
	c.add(store.OpFlush, nil)
	return flushMode(q)
}

// planFlushAll flushes every bucket of the tenant.
func planFlushAll(c *conn, q *call) failure {
	if f := flushMode(q); f != "" {
		return f
	}
	spaces, f := c.spaces()
	if f != "" {
		return f
	}
	for _, s := range spaces {
		if s.Values > 0 {
			c.add(store.OpFlush, nil).Space = s.Space
		}
	}
	return ""
}

// spaces returns the tenant's buckets.
func (c *conn) spaces() ([]store.SpaceInfo, failure) {
	r, err := c.client.Do(context.Background(), &store.Command{Op: store.OpListSpaces})
	if err != nil {
		return nil, undecided(err)
	}
	var own []store.SpaceInfo
	for _, s := range r.Spaces {
		if s.Space.Tenant == c.space.Tenant {
			own = append(own, s)
		}
	}
	return own, ""
}

func runDBSize(c *conn, _ [][]byte) {
	spaces, f := c.spaces()
	if f != "" {
		c.w.fail(f)
		return
	}
	n := 0
	for _, s := range spaces {
		if s.Space == c.space {
			n = s.Values
		}
	}
	c.w.int(int64(n))
}

func runRandomKey(c *conn, _ [][]byte) {
	r, ok := c.one(&store.Command{Op: store.OpRandomKey, Space: c.space, Cursor: rand.Uint64()})
	switch {
	case !ok:
	case !r.Found:
		c.w.null()
	default:
		c.w.bulkText(r.Keys[0])
	}
}

// The number of keys that a scan looks for at a time: by default, and at most.
const (
	scanCount    = 10
	maxScanCount = 10_000
	// leastScanCount is how many keys a step of SCAN asks for at least.
	leastScanCount = 500
)

// matcher returns what finds the keys that match a pattern, or says that the pattern is too long.
func (c *conn) matcher(pattern []byte) (matcher, failure) {
	if len(pattern) > maxPattern {
		return matcher{}, errLongPattern
	}
	return matcher{pattern: pattern, onward: c.onward}, ""
}

// scanOf returns the scan of the keys that a pattern can match.
func (c *conn) scanOf(pattern []byte, count int) store.Command {
	return store.Command{Op: store.OpScan, Space: c.space, Match: literalPrefix(pattern), Limit: count}
}

// runKeys answers KEYS pattern.
func runKeys(c *conn, args [][]byte) {
	m, f := c.matcher(args[1])
	if f != "" {
		c.w.fail(f)
		return
	}
	cmd := c.scanOf(m.pattern, maxScanCount)
	var keys []string
	size := 0
	for {
		r, ok := c.one(&cmd)
		if !ok {
			return
		}
		some, f := m.filter(r.Keys)
		for _, key := range some {
			size += len(key)
		}
		if keys = append(keys, some...); f == "" && size > c.s.cfg.OutputBuffer {
			f = errLargeReply
		}
		if cmd.Cursor = r.Cursor; f == "" && cmd.Cursor > 0 {
			f = c.onward()
		}
		if f != "" {
			c.w.fail(f)
			return
		}
		if cmd.Cursor == 0 {
			break
		}
	}
	c.replyKeys(keys)
}

func (c *conn) replyKeys(keys []string) {
	c.w.array(len(keys))
	for _, key := range keys {
		c.w.bulkText(key)
	}
}

// runScan answers SCAN cursor with MATCH pattern, COUNT n and TYPE name.
func runScan(c *conn, args [][]byte) {
	cursor, err := strconv.ParseUint(string(args[1]), 10, 64)
	if err != nil {
		c.w.fail(errCursor)
		return
	}
	o, f := scanOptions(args[2:])
	var m matcher
	if f == "" {
		m, f = c.matcher(o.pattern)
	}
	if f != "" {
		c.w.fail(f)
		return
	}
	// Each step of a scan looks at a whole shard, so small steps would look at the same keys over and over. Redis too may return more than COUNT.
	cmd := c.scanOf(o.pattern, max(o.count, leastScanCount))
	cmd.Cursor = cursor
	r, ok := c.one(&cmd)
	if !ok {
		return
	}
	keys, f := m.filter(r.Keys)
	if f != "" {
		c.w.fail(f)
		return
	}
	if o.kind != nil {
		if keys, ok = c.ofType(keys, o.kind); !ok {
			return
		}
	}
	c.w.array(2)
	c.w.bulkText(strconv.FormatUint(r.Cursor, 10))
	c.replyKeys(keys)
}

// scanOption is what SCAN looks for.
type scanOption struct {
	pattern []byte
	count   int
	kind    []byte // nil: any
}

func scanOptions(args [][]byte) (o scanOption, f failure) {
	o.pattern, o.count = []byte{'*'}, scanCount
	for ; len(args) > 0; args = args[2:] {
		if len(args) == 1 {
			return o, errSyntax
		}
		switch value := args[1]; {
		case is(args[0], "match"):
			o.pattern = value
		case is(args[0], "count"):
			n, ok := parseInt(value)
			switch {
			case !ok:
				return o, errNotInteger
			case n < 1:
				return o, errSyntax
			}
			o.count = int(min(n, maxScanCount))
		case is(args[0], "type"):
			o.kind = value
		default:
			return o, errSyntax
		}
	}
	return o, ""
}

// ofType returns those of the keys under which there is something of a type.
func (c *conn) ofType(keys []string, kind []byte) (some []string, ok bool) {
	for i, key := range keys {
		if i%tenant.Turn == tenant.Turn-1 {
			if f := c.onward(); f != "" {
				c.w.fail(f)
				return nil, false
			}
		}
		r, ok := c.one(&store.Command{Op: store.OpTTL, Space: c.space, Key: []byte(key)})
		if !ok {
			return nil, false
		}
		if bytes.EqualFold([]byte(typeOf(&r)), kind) {
			some = append(some, key)
		}
	}
	return some, true
}
