package resp

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// trait is a property of a command.
type trait uint8

const (
	beforeAuth      trait = 1 << iota // may be sent before AUTH
	duringMulti                       // is run at once inside of MULTI, not queued
	notInMulti                        // has no place inside of MULTI
	looksAtRefusals                   // its reply deals with refused results
	writes                            // changes values
	quick                             // takes the same time whatever is stored
	ends                              // ends what has begun: it is counted to the tenant's rate and never refused for it
)

// command is a line of the table. It has either plan and reply, or run.
type command struct {
	name   string
	arity  int // with the name, as Redis counts; negative: at least so many
	traits trait
	keys   keyRange

	// ends says whether a call has the trait ends, when that depends on its arguments.
	ends func(*conn, [][]byte) bool

	// plan adds the store commands that the call needs to the connection's plan.
	plan func(*conn, *call) failure
	// reply answers when they have their results, none of them refused.
	reply func(*conn, *call)
	// run does everything at once.
	run func(*conn, [][]byte)

	served prometheus.Counter // how often it was answered without an error
}

// keyRange says which arguments are keys, for clients that ask: the first, the last (negative: from the end), and the step.
type keyRange struct{ first, last, step int }

func (cmd *command) has(t trait) bool { return cmd.traits&t != 0 }

// takes says whether the command can have n arguments, its name included.
func (cmd *command) takes(n int) bool {
	if cmd.arity < 0 {
		return n >= -cmd.arity
	}
	return n == cmd.arity
}

// endsSomething says whether a call has the trait ends.
func (cmd *command) endsSomething(c *conn, args [][]byte) bool {
	return cmd.has(ends) || cmd.ends != nil && cmd.ends(c, args)
}

// call is a planned command on its way.
type call struct {
	cmd       *command
	args      [][]byte
	cmds      []store.Command
	rs        []store.Result // of cmds; nil when allAbsent was not fulfilled
	reply     func(*conn, *call)
	failed    failure
	allAbsent bool // nothing is done unless all keys are missing
}

// longestName is the length of the longest name of a command.
const longestName = 16

// find returns the named command, or nil.
func (s *Server) find(name []byte) *command {
	var lower [longestName]byte
	if len(name) > longestName {
		return nil
	}
	for i, b := range name {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		lower[i] = b
	}
	return s.table[string(lower[:len(name)])]
}

// is says whether an argument is a word, which is given in lower case.
func is(arg []byte, word string) bool {
	if len(arg) != len(word) {
		return false
	}
	for i, b := range arg {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		if b != word[i] {
			return false
		}
	}
	return true
}

// maxKey is the length of the longest key, as for clients of the socket.
const maxKey = 1<<16 - 1

// planCall plans a call behind what is planned already.
func (c *conn) planCall(q *call) failure {
	from := len(c.plan)
	if f := q.cmd.plan(c, q); f != "" {
		return f
	}
	for i := range c.plan[from:] {
		if cmd := &c.plan[from+i]; cmd.Op != store.OpFlush && !isKey(cmd.Key) || cmd.Op == store.OpRename && !isKey(cmd.NewKey) {
			return errKeyLength
		}
	}
	return ""
}

func isKey(key []byte) bool { return len(key) > 0 && len(key) <= maxKey }

// add adds a store command to the plan. The command is the caller's until the next add.
func (c *conn) add(op store.Op, key []byte) *store.Command {
	n := len(c.plan)
	if n < cap(c.plan) {
		c.plan = c.plan[:n+1]
		c.plan[n] = store.Command{}
	} else {
		c.plan = append(c.plan, store.Command{})
	}
	cmd := &c.plan[n]
	cmd.Op, cmd.Space, cmd.Key = op, c.space, key
	return cmd
}

// plain returns the plan of a command of one store command without options.
func plain(op store.Op) func(*conn, *call) failure {
	return func(c *conn, q *call) failure {
		c.add(op, q.args[1])
		return ""
	}
}

// forEachKey returns the plan of a command that does the same with each of its keys.
func forEachKey(op store.Op) func(*conn, *call) failure {
	return func(c *conn, q *call) failure {
		for _, key := range q.args[1:] {
			c.add(op, key)
		}
		return ""
	}
}

// The replies that several commands share. They look at the first result, if not said otherwise.

func replyOK(c *conn, _ *call)          { c.w.ok() }
func replyN(c *conn, q *call)           { c.w.int(q.rs[0].N) }
func replyDone(c *conn, q *call)        { c.w.flag(q.rs[0].Done) }
func replyValue(c *conn, q *call)       { c.w.bulkOrNull(q.rs[0].Value, q.rs[0].Found) }
func replyStoredValue(c *conn, q *call) { c.w.bulk(q.rs[0].Value) }

// replyHowMany counts the results that found something.
func replyHowMany(c *conn, q *call) {
	n := int64(0)
	for i := range q.rs {
		if q.rs[i].Found {
			n++
		}
	}
	c.w.int(n)
}
