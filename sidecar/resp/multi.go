package resp

import (
	"bytes"
	"unsafe"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// transaction is what a client has queued between MULTI and EXEC. Its nil pointer is that of a client outside of MULTI.
type transaction struct {
	calls   []call
	bytes   int  // of the arguments
	spoiled bool // a command was refused when it was queued
}

// spoil makes EXEC refuse.
func (t *transaction) spoil() {
	if t != nil {
		t.spoiled = true
	}
}

// size returns what the queued commands cost in memory.
func (t *transaction) size() int {
	if t == nil {
		return 0
	}
	return t.bytes + cap(t.calls)*int(unsafe.Sizeof(call{}))
}

// queued returns how many commands are queued, -1 outside of MULTI.
func (t *transaction) queued() int {
	if t == nil {
		return -1
	}
	return len(t.calls)
}

// argumentCost is what a queued argument costs beside its bytes.
const argumentCost = 32

// queue keeps a command for EXEC.
func (c *conn) queue(cmd *command, args [][]byte) {
	t := c.multi
	size := 0
	for _, arg := range args {
		size += len(arg) + argumentCost
	}
	switch {
	case cmd.has(notInMulti):
		t.spoil()
		c.w.fail(errNotInMulti)
		return
	case t.bytes+size > c.in.limits.size || len(t.calls) >= c.in.limits.args:
		t.spoil()
		c.w.fail("ERR the transaction is too large (redis.max_command, redis.max_arguments)")
		return
	}
	own := make([][]byte, len(args))
	for i, arg := range args {
		own[i] = bytes.Clone(arg)
	}
	t.bytes += size
	t.calls = append(t.calls, call{cmd: cmd, args: own, reply: cmd.reply})
	c.w.simple("QUEUED")
}

func runMulti(c *conn, _ [][]byte) {
	if c.multi != nil {
		c.w.fail("ERR MULTI calls can not be nested")
		return
	}
	c.multi = &transaction{}
	c.w.ok()
}

func runDiscard(c *conn, _ [][]byte) {
	if c.multi == nil {
		c.w.fail("ERR DISCARD without MULTI")
		return
	}
	c.multi = nil
	c.w.ok()
}

// runExec has everything that was queued decided as one step. A command that is wrong in itself, or
// refused, does not keep the others from being run.
func runExec(c *conn, _ [][]byte) {
	t := c.multi
	c.multi = nil
	switch {
	case t == nil:
		c.w.fail("ERR EXEC without MULTI")
		return
	case t.spoiled:
		c.w.fail(errExecAbort)
		return
	}
	ends := c.planAll(t.calls)
	var rs []store.Result
	if len(c.plan) > 0 {
		var f failure
		if rs, f = c.decideAll(&store.Command{Batch: c.plan, OneStep: true}); f != "" {
			c.w.fail(f)
			return
		}
	}
	c.w.array(len(t.calls))
	from := 0
	for i := range t.calls {
		q := &t.calls[i]
		q.cmds, q.rs = c.plan[from:ends[i]], rs[from:ends[i]]
		from = ends[i]
		if c.answer(q); c.overflows() {
			return
		}
	}
}

// planAll plans the calls one behind the other and returns where each one's plan ends.
func (c *conn) planAll(calls []call) (ends []int) {
	c.plan = c.plan[:0]
	for i := range calls {
		q := &calls[i]
		from := len(c.plan)
		if q.failed = c.planCall(q); q.failed != "" {
			c.plan = c.plan[:from]
		}
		ends = append(ends, len(c.plan))
	}
	return ends
}

func runWatch(c *conn, _ [][]byte) {
	if c.multi != nil {
		c.w.fail("ERR WATCH inside MULTI is not allowed")
		return
	}
	c.w.fail(errWatch)
}
