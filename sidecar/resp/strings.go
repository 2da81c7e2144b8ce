package resp

import (
	"math"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// planSet reads SET key value, with NX, XX or IFEQ value, GET, and EX, PX, EXAT, PXAT or KEEPTTL.
func planSet(c *conn, q *call) failure {
	cmd := c.add(store.OpSet, q.args[1])
	cmd.Value = q.args[2]
	if len(q.args) == 3 {
		return ""
	}
	var u unit
	var expiry []byte
	for options := q.args[3:]; len(options) > 0; options = options[1:] {
		more := len(options) > 1
		word := options[0]
		timed, isTime := unitOf(word)
		switch {
		case is(word, "nx") && cmd.If == store.Always:
			cmd.If = store.IfAbsent
		case is(word, "xx") && cmd.If == store.Always:
			cmd.If = store.IfPresent
		case is(word, "ifeq") && cmd.If == store.Always && more:
			options = options[1:]
			cmd.If, cmd.Match = store.IfEqual, options[0]
		case is(word, "nx") && cmd.If == store.IfAbsent, is(word, "xx") && cmd.If == store.IfPresent:
		case is(word, "get"):
			cmd.WantOld = true
		case is(word, "keepttl") && expiry == nil:
			cmd.KeepTTL = true
		case isTime && expiry == nil && !cmd.KeepTTL && more:
			options = options[1:]
			u, expiry = timed, options[0]
		default:
			return errSyntax
		}
	}
	if expiry != nil {
		return expireIn(cmd, u, expiry, q.cmd.name)
	}
	return ""
}

// replySet answers OK or null, and the old value when GET asked for it.
func replySet(c *conn, q *call) {
	switch r := &q.rs[0]; {
	case q.cmds[0].WantOld:
		c.w.bulkOrNull(r.Value, r.Found)
	case r.Done:
		c.w.ok()
	default:
		c.w.null()
	}
}

// planSetEx returns the plan of SETEX and PSETEX: key, time, value.
func planSetEx(u unit) func(*conn, *call) failure {
	return func(c *conn, q *call) failure {
		cmd := c.add(store.OpSet, q.args[1])
		cmd.Value = q.args[3]
		return expireIn(cmd, u, q.args[2], q.cmd.name)
	}
}

func planSetNX(c *conn, q *call) failure {
	cmd := c.add(store.OpSet, q.args[1])
	cmd.Value, cmd.If = q.args[2], store.IfAbsent
	return ""
}

func planGetSet(c *conn, q *call) failure {
	cmd := c.add(store.OpSet, q.args[1])
	cmd.Value, cmd.WantOld = q.args[2], true
	return ""
}

// planGetEx reads GETEX key with EX, PX, EXAT, PXAT or PERSIST.
func planGetEx(c *conn, q *call) failure {
	options := q.args[2:]
	if len(options) == 0 {
		c.add(store.OpGet, q.args[1])
		return ""
	}
	cmd := c.add(store.OpExpire, q.args[1])
	cmd.WantOld = true
	u, isTime := unitOf(options[0])
	switch {
	case isTime && len(options) == 2:
		if f := expireIn(cmd, u, options[1], q.cmd.name); f != "" {
			cmd.Op = store.OpGet
			q.reply = failWhenFound(f)
		}
	case !is(options[0], "persist") || len(options) > 1:
		return errSyntax
	}
	return ""
}

// failWhenFound returns the reply of a GETEX whose time is wrong: as in Redis, that does not matter when the key is missing.
func failWhenFound(f failure) func(*conn, *call) {
	return func(c *conn, q *call) {
		if q.rs[0].Found {
			c.w.fail(f)
			return
		}
		c.w.null()
	}
}

// replyMGet answers null also for what is not a string.
func replyMGet(c *conn, q *call) {
	c.w.array(len(q.rs))
	for i := range q.rs {
		r := &q.rs[i]
		c.w.bulkOrNull(r.Value, r.Found)
		if c.overflows() {
			return
		}
	}
}

// planMSet reads MSET and MSETNX: keys and values in turn.
func planMSet(c *conn, q *call) failure {
	pairs := q.args[1:]
	if len(pairs)%2 != 0 {
		return wrongArity(q.cmd.name)
	}
	for ; len(pairs) > 0; pairs = pairs[2:] {
		c.add(store.OpSet, pairs[0]).Value = pairs[1]
	}
	return ""
}

func planMSetNX(c *conn, q *call) failure {
	q.allAbsent = true
	return planMSet(c, q)
}

func replyMSetNX(c *conn, q *call) { c.w.flag(q.rs != nil) }

// planIncr returns the plan of INCR and DECR.
func planIncr(delta int64) func(*conn, *call) failure {
	return func(c *conn, q *call) failure {
		c.add(store.OpIncr, q.args[1]).Delta = delta
		return ""
	}
}

func planIncrBy(c *conn, q *call) failure {
	delta, ok := parseInt(q.args[2])
	if !ok {
		return errNotInteger
	}
	c.add(store.OpIncr, q.args[1]).Delta = delta
	return ""
}

func planDecrBy(c *conn, q *call) failure {
	delta, ok := parseInt(q.args[2])
	switch {
	case !ok:
		return errNotInteger
	case delta == math.MinInt64:
		return "ERR decrement would overflow"
	}
	c.add(store.OpIncr, q.args[1]).Delta = -delta
	return ""
}

func planAppend(c *conn, q *call) failure {
	cmd := c.add(store.OpAppend, q.args[1])
	cmd.Value, cmd.Limit = q.args[2], c.s.cfg.MaxCommand
	return ""
}

// planDelIfEq reads DELIFEQ key value.
func planDelIfEq(c *conn, q *call) failure {
	cmd := c.add(store.OpDel, q.args[1])
	cmd.If, cmd.Match = store.IfEqual, q.args[2]
	return ""
}

// planDelEx reads DELEX key with IFEQ or IFNE value.
func planDelEx(c *conn, q *call) failure {
	cmd := c.add(store.OpDel, q.args[1])
	switch len(q.args) {
	case 2:
		return ""
	case 4:
		cmd.Match = q.args[3]
	default:
		return wrongArity(q.cmd.name)
	}
	switch word := q.args[2]; {
	case is(word, "ifeq"):
		cmd.If = store.IfEqual
	case is(word, "ifne"):
		cmd.If = store.IfNotEqual
	case is(word, "ifdeq"), is(word, "ifdne"):
		return errDigest
	default:
		return errSyntax
	}
	return ""
}

// planIncrByFloat leaves the number to the store, which says whether it is one.
func planIncrByFloat(c *conn, q *call) failure {
	c.add(store.OpIncrFloat, q.args[1]).Value = q.args[2]
	return ""
}
