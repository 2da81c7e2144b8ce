package resp

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/socket"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

const (
	// firstBuffer is a connection's buffer at first: a pipeline of small commands fits, and idle connections stay small.
	firstBuffer = 4 << 10
	// keptBuffer is the largest buffer that a connection keeps between commands, and the amount of answers that is
	// written without waiting for more.
	keptBuffer = 64 << 10
	// keptPlan is how many store commands a connection keeps room for.
	keptPlan = 16
	// writeTimeout is how long a client may take to accept an answer.
	writeTimeout = 10 * time.Second
	// unfinishedTimeout is how long a client may pause within a command.
	unfinishedTimeout = 30 * time.Second
)

// conn is one connection. Its fields belong to the goroutine that runs serve.
type conn struct {
	s      *Server
	nc     net.Conn
	socket *socket.Socket
	client *locker.Client
	id     int64
	name   string // as the client calls itself
	user   string // who authenticated
	authed bool
	space  store.Space
	db     int

	in      reader
	charged int // what this connection has added to Server.buffered
	w       writer
	start   int // where the answer to the command begins in w.out
	quit    bool

	call   call // the one under way, outside of MULTI
	plan   []store.Command
	single [1]store.Result
	multi  *transaction // nil outside of MULTI

	readBy time.Time // the deadline of reading, as it is set
}

func newConn(s *Server, nc net.Conn) (*conn, error) {
	sock, err := socket.New(nc, writeTimeout)
	if err != nil {
		return nil, err
	}
	c := &conn{
		s: s, nc: nc, socket: sock, client: s.locker.NewClient(),
		id: s.lastID.Add(1), user: defaultUser, authed: s.login.open(),
	}
	c.in = newReader(unknownLimits)
	if c.authed {
		c.welcome(defaultUser, s.cfg.Tenant)
	}
	c.in.buf = make([]byte, 0, firstBuffer)
	return c, nil
}

// welcome sets who the client is.
func (c *conn) welcome(user, tenant string) {
	c.authed, c.user = true, user
	c.space.Tenant = tenant
	c.in.limits = readLimits{args: c.s.cfg.MaxArguments, size: c.s.cfg.MaxCommand}
}

// refuse answers with an error and closes the connection.
func (c *conn) refuse(f failure) {
	c.w.fail(f)
	c.flush()
	c.client.Close()
	c.nc.Close()
}

// serve reads and answers until the connection ends.
func (c *conn) serve() {
	defer c.nc.Close()
	defer c.client.Close()
	defer func() { c.charge(-c.charged) }()
	c.setReadDeadline()
	_ = c.socket.EachTime(c.ready) // the error says that time is up or the connection closed: it has ended either way
}

// ready reads and answers what is there. It returns true when the connection must end.
func (c *conn) ready(fd uintptr) bool {
	for {
		room, err := c.room()
		if err != nil {
			c.cutOff(err)
			return true
		}
		n, err := socket.ReadNow(fd, room)
		switch {
		case errors.Is(err, socket.ErrNotYet):
			return false
		case err != nil:
			return true
		}
		c.in.buf = c.in.buf[:len(c.in.buf)+n]
		err = c.serveCommands()
		if c.flush() != nil || err != nil || c.quit {
			return true
		}
		c.in.shrink(keptBuffer)
		if !c.charge(c.held() - c.charged) {
			c.cutOff(errBuffersFull)
			return true
		}
		if c.s.closing.Load() {
			return true // what was read is answered
		}
		c.setReadDeadline()
	}
}

// held returns how much of the memory that all share the connection takes.
func (c *conn) held() int { return max(0, cap(c.in.buf)-keptBuffer) + c.multi.size() }

// cutOff says to a client that is being closed for its silence or its greed why, if it listens.
func (c *conn) cutOff(err error) {
	if errors.Is(err, errBuffersFull) {
		c.w.fail(failure("ERR " + err.Error()))
		c.flush()
		c.s.cfg.Metrics.malformed.Inc()
		c.s.cfg.Log.Warn("connection closed: too many unfinished commands", "resp", c.s.cfg.Address,
			"client", c.nc.RemoteAddr().String(), "limit", c.s.cfg.Unfinished)
	}
}

// errBuffersFull is returned when the unfinished commands of all connections take as much memory as they may.
var errBuffersFull = errors.New("too many unfinished commands on all connections together (redis.unfinished)")

// charge adds to what the connection's buffers take of the memory that all share, and says whether it fits.
func (c *conn) charge(delta int) bool {
	if delta == 0 {
		return true
	}
	c.charged += delta
	return c.s.buffered.Add(int64(delta)) <= int64(c.s.cfg.Unfinished) || delta < 0
}

// room makes room for what is to be read.
func (c *conn) room() ([]byte, error) {
	room := c.in.room(firstBuffer)
	if grown := c.held() - c.charged; grown > 0 && !c.charge(grown) {
		return nil, errBuffersFull
	}
	return room, nil
}

// setReadDeadline bounds the silence of the client. A deadline that is far enough is left alone: setting one costs
// more than a look at the clock.
func (c *conn) setReadDeadline() {
	limit := c.s.cfg.IdleTimeout
	if c.in.pending() && (limit == 0 || limit > unfinishedTimeout) {
		limit = unfinishedTimeout
	}
	var by time.Time
	if limit > 0 {
		now := time.Now()
		by = now.Add(limit)
		if d := by.Sub(c.readBy); d >= 0 && d < limit/16 {
			return
		}
	} else if c.readBy.IsZero() {
		return
	}
	c.readBy = by
	c.nc.SetReadDeadline(by)
	if c.s.closing.Load() { // Close may have set the deadline just before
		c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// flush writes the answers that have come together.
func (c *conn) flush() error {
	if len(c.w.out) == 0 {
		return nil
	}
	err := c.socket.Write(c.w.out)
	if cap(c.w.out) > keptBuffer {
		c.w.out = nil
	}
	c.w.out = c.w.out[:0]
	return err
}

// serveCommands answers the whole commands that are there. It returns an error when the connection must end.
func (c *conn) serveCommands() error {
	for !c.quit {
		args, err := c.in.next()
		if errors.Is(err, errIncomplete) {
			return nil
		}
		if err != nil {
			c.w.fail(failure("ERR " + err.Error()))
			c.s.cfg.Metrics.malformed.Inc()
			c.s.cfg.Log.Warn("connection closed: not the Redis protocol", "resp", c.s.cfg.Address,
				"client", c.nc.RemoteAddr().String(), "error", err)
			return err
		}
		c.serveCommand(args)
		if len(c.w.out) >= keptBuffer {
			if err := c.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// serveCommand answers one command.
func (c *conn) serveCommand(args [][]byte) {
	c.start, c.w.class = len(c.w.out), ""
	cmd := c.execute(args)
	if c.overflows() {
		c.w.out = c.w.out[:c.start]
		c.w.fail(errLargeReply)
	}
	c.s.cfg.Metrics.count(cmd, c.w.class)
	if cap(c.plan) > keptPlan {
		c.plan = nil
	}
}

// overflows says whether the answer has become larger than it may. What builds a long answer looks now and then, and stops.
func (c *conn) overflows() bool { return len(c.w.out)-c.start > c.s.cfg.OutputBuffer }

// execute finds the command, which may be nil, and has it answered.
func (c *conn) execute(args [][]byte) *command {
	cmd := c.s.find(args[0])
	if cmd == nil && isAny(args[0], "post", "host:") {
		// A web page had a browser send a request here, whose body could be commands.
		c.s.cfg.Log.Warn("connection closed: it speaks HTTP", "resp", c.s.cfg.Address, "client", c.nc.RemoteAddr().String())
		c.quit = true
	}
	if f := c.admit(cmd, args); f != "" {
		c.reject(cmd, f)
		return cmd
	}
	switch {
	case c.multi != nil && !cmd.has(duringMulti):
		c.queue(cmd, args)
	case cmd.run != nil:
		cmd.run(c, args)
	default:
		c.plan = c.plan[:0]
		q := &c.call
		*q = call{cmd: cmd, args: args, reply: cmd.reply}
		if q.failed = c.planCall(q); q.failed == "" {
			q.cmds = c.plan
			q.rs, q.failed = c.decide(q)
		}
		c.answer(q)
	}
	return cmd
}

// reject answers a command that cannot be looked at, and has EXEC refuse the transaction in which it came. EXEC itself ends it.
func (c *conn) reject(cmd *command, f failure) {
	c.multi.spoil()
	if cmd != nil && cmd.name == "exec" {
		c.multi = nil
		f = failure("EXECABORT Transaction discarded because of: " + strings.TrimPrefix(string(f), "ERR "))
	}
	c.w.fail(f)
}

// admit says why the command cannot be looked at.
func (c *conn) admit(cmd *command, args [][]byte) failure {
	switch {
	case cmd == nil:
		return unknownCommand(args)
	case !cmd.takes(len(args)):
		return wrongArity(cmd.name)
	case !c.authed && !cmd.has(beforeAuth):
		return errNoAuth
	}
	return ""
}

// decide has the store commands of one call decided, in one step.
func (c *conn) decide(q *call) ([]store.Result, failure) {
	switch {
	case len(q.cmds) == 0:
		return nil, ""
	case len(q.cmds) > 1 || q.allAbsent:
		batch := store.Command{Batch: q.cmds}
		if q.allAbsent {
			batch.If = store.IfAbsent
		}
		return c.decideAll(&batch)
	}
	var err error
	c.single[0], err = c.client.Do(context.Background(), &q.cmds[0])
	if err != nil {
		return nil, undecided(err)
	}
	return c.single[:], ""
}

// decideAll has the commands of a batch decided together. Without a result, they were not run because a key existed.
func (c *conn) decideAll(batch *store.Command) ([]store.Result, failure) {
	batch.Op, batch.Space, batch.Limit = store.OpBatch, c.space, c.s.cfg.OutputBuffer
	r, err := c.client.Do(context.Background(), batch)
	if err != nil {
		return nil, undecided(err)
	}
	for i := range r.Batch {
		if r.Batch[i].Reason == store.TooLong && batch.Batch[i].Op != store.OpAppend {
			return nil, errLargeReply // what was stored compressed would be
		}
	}
	return r.Batch, ""
}

// answer writes the reply of a call whose results are there.
func (c *conn) answer(q *call) {
	if q.failed == "" && !q.cmd.has(looksAtRefusals) {
		for i := range q.rs {
			if q.rs[i].Status != store.OK {
				q.failed = refusal(&q.rs[i])
				break
			}
		}
	}
	if q.failed != "" {
		c.w.fail(q.failed)
		return
	}
	q.reply(c, q)
}
