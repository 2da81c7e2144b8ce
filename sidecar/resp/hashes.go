package resp

import "github.com/coatcheck/coatcheck/sidecar/store"

// planHSet reads HSET and HMSET: key, then fields and values in turn.
func planHSet(c *conn, q *call) failure {
	if len(q.args)%2 != 0 {
		return wrongArity(q.cmd.name)
	}
	c.add(store.OpHashSet, q.args[1]).Pairs = q.args[2:]
	return ""
}

// planFields returns the plan of a command on fields of a hash: key, fields.
func planFields(op store.Op) func(*conn, *call) failure {
	return func(c *conn, q *call) failure {
		c.add(op, q.args[1]).Pairs = q.args[2:]
		return ""
	}
}

func planHIncrBy(c *conn, q *call) failure {
	delta, ok := parseInt(q.args[3])
	if !ok {
		return errNotInteger
	}
	cmd := c.add(store.OpHashIncr, q.args[1])
	cmd.Pairs, cmd.Delta = q.args[2:3], delta
	return ""
}

func replyHIncrBy(c *conn, q *call) {
	r := &q.rs[0]
	switch {
	case r.Reason == store.NotInteger:
		c.w.fail("ERR hash value is not an integer")
	case r.Status != store.OK:
		c.w.fail(refusal(r))
	default:
		c.w.int(r.N)
	}
}

func replyHGet(c *conn, q *call) {
	value := q.rs[0].Values[0]
	c.w.bulkOrNull(value, value != nil)
}

func replyHExists(c *conn, q *call) { c.w.flag(q.rs[0].Values[0] != nil) }

func replyHMGet(c *conn, q *call) {
	values := q.rs[0].Values
	c.w.array(len(values))
	for _, value := range values {
		if c.w.bulkOrNull(value, value != nil); c.overflows() {
			return
		}
	}
}

func replyHGetAll(c *conn, q *call) {
	r := &q.rs[0]
	c.w.mapping(len(r.Keys))
	for i, field := range r.Keys {
		c.w.bulkText(field)
		if c.w.bulk(r.Values[i]); c.overflows() {
			return
		}
	}
}

func replyHKeys(c *conn, q *call) { c.replyKeys(q.rs[0].Keys) }

func replyHVals(c *conn, q *call) {
	c.w.array(len(q.rs[0].Values))
	for _, value := range q.rs[0].Values {
		if c.w.bulk(value); c.overflows() {
			return
		}
	}
}
