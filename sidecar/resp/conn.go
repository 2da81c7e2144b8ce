package resp

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/socket"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/tenant"
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
	// slowest is the bytes of a command for which it may take a second more to arrive whole.
	slowest = 1 << 20
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
	tenant *tenant.Tenant // nil before AUTH
	seat   *tenant.Seat   // at the tenant's gate
	authBy time.Time      // until when it must have authenticated; zero: it need not
	wrong  int            // passwords that it sent
	turn   *tenant.Seat   // the seat of the turn under way: seat may change in the middle of it

	in      reader
	charged int // what this connection has of the tenant's quota of unfinished commands
	w       writer
	start   int // where the answer to the command begins in w.out
	quit    bool

	call   call // the one under way, outside of MULTI
	plan   []store.Command
	single [1]store.Result
	multi  *transaction // nil outside of MULTI

	place   *list.Element // among the strangers; nil: it is none of them; guarded by strangers.mu
	dropped bool          // as a stranger, to make room: its share of the connections is given back; guarded by strangers.mu

	began    time.Time // when the client fell silent within a command; zero: it did not
	*buffers           // nil while the client is silent; their slices are in in and w
	readBy   time.Time // the deadline of reading, as it is set
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
	if !c.authed {
		c.authBy = time.Now().Add(s.cfg.Timeout)
	}
	return c, nil
}

// welcome sets who the client is, if that tenant can have one client more. Who the client was before it is no longer.
func (c *conn) welcome(user, name string) failure {
	t := c.s.cfg.Tenants.Of(name)
	if t != c.tenant {
		if !t.Connections.Take(1) {
			c.s.refused(t, tenant.Connections, "connection refused: the tenant has too many", "client", c.nc.RemoteAddr().String(),
				"limit", t.Connections.Limit())
			return failure(fmt.Sprintf("%s of tenant %s: %d (%s)", errMaxClients, t.Name, t.Connections.Limit(), t.Setting("connections")))
		}
		if !c.s.strangers.leave(c) {
			t.Connections.Give(1)
			c.quit = true
			return errGone
		}
		c.leaveTenant()
		c.tenant, c.seat = t, t.Seat()
		c.socket.Charge(&t.Unread)
	}
	c.authed, c.user = true, user
	c.space.Tenant = name
	c.in.limits = readLimits{args: c.s.cfg.MaxArguments, size: c.s.cfg.MaxCommand}
	return ""
}

// leaveTenant gives back what the connection has of its tenant's quotas.
func (c *conn) leaveTenant() {
	if c.tenant != nil {
		c.charge(-c.charged)
		c.tenant.Connections.Give(1)
	}
}

// dismiss gives back what the connection has of all quotas.
func (c *conn) dismiss() {
	c.leaveTenant()
	if c.s.strangers.leave(c) {
		c.s.cfg.Connections.Give(1)
	}
}

// refuse answers with an error and closes the connection.
func (c *conn) refuse(f failure) {
	c.w.fail(f)
	c.flush()
	c.client.Close()
	c.s.conns.TurnAway(c.nc)
}

// serve reads and answers until the connection ends.
func (c *conn) serve() {
	defer c.dismiss()
	defer c.nc.Close()
	defer c.client.Close()
	if err := c.socket.EachTime(c.ready); err != nil {
		c.cutOff(err)
	}
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
			if err := c.pause(); err != nil {
				c.cutOff(err)
				return true
			}
			return false
		case err != nil:
			return true
		}
		c.in.buf = c.in.buf[:len(c.in.buf)+n]
		c.turn = c.seat
		c.turn.Enter()
		err = c.serveCommands()
		c.forget()
		c.turn.Leave()
		if c.flush() != nil || err != nil || c.quit {
			return true
		}
		if c.late() {
			c.cutOff(os.ErrDeadlineExceeded)
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
	}
}

// buffers are what a connection needs while its client says something. Both are empty.
type buffers struct{ in, out []byte }

// pause makes an end to what a client that says no more may hold: its buffers if it has said all, its time if it has not.
func (c *conn) pause() error {
	c.seat.Idle()
	held := c.held()
	if c.in.pending() {
		held = c.above(firstBuffer)
		if c.began.IsZero() {
			c.began = time.Now()
		}
	} else {
		c.began = time.Time{}
		c.rest()
	}
	c.setReadDeadline()
	if !c.charge(held - c.charged) {
		return errBuffersFull
	}
	return nil
}

// rest gives the buffers to whoever needs them next.
func (c *conn) rest() {
	if b := c.buffers; b != nil && cap(c.in.buf) <= keptBuffer {
		b.in, b.out = c.in.buf[:0], c.w.out[:0]
		c.s.buffers.Put(b)
	}
	c.in.buf, c.in.start, c.in.pos = nil, 0, 0
	c.w.out, c.buffers = nil, nil
}

// forget lets go of the commands that were answered and their results. What pointed to them would keep a buffer alive that
// the connection has given away, and which is counted no longer.
func (c *conn) forget() {
	c.call, c.single[0] = call{}, store.Result{}
	clear(c.plan[:cap(c.plan)]) // also what earlier commands of the same pipeline planned
	c.plan = c.plan[:0]
	c.in.forget()
}

// held returns how much of the memory that all clients of the tenant share the connection takes while it is served.
func (c *conn) held() int { return c.above(keptBuffer) }

// above is held when so much of the buffer is free.
func (c *conn) above(free int) int { return max(0, cap(c.in.buf)-free) + c.in.extra() + c.multi.size() }

// cutOff says to a client that is being closed for its silence or its greed why, if it listens.
func (c *conn) cutOff(err error) {
	switch {
	case errors.Is(err, errBuffersFull):
		c.s.refused(c.tenant, tenant.Unfinished, "connection closed: too many unfinished commands",
			"client", c.nc.RemoteAddr().String(), "limit", c.tenant.Commands.Limit())
		c.w.fail(failure("ERR " + err.Error()))
		c.flush()
	case errors.Is(err, os.ErrDeadlineExceeded) && c.late() && !c.s.closing.Load():
		if unlogged, now := c.s.late.Now(time.Now()); now {
			c.s.cfg.Log.Warn("connection closed: it did not authenticate in time", "resp", c.s.cfg.Address,
				"client", c.nc.RemoteAddr().String(), "unlogged", unlogged)
		}
		c.w.fail(failure(fmt.Sprintf("ERR no AUTH within %v (limits.message_timeout)", c.s.cfg.Timeout)))
		c.flush()
	case errors.Is(err, os.ErrDeadlineExceeded) && !c.began.IsZero() && !c.s.closing.Load():
		c.malformed(fmt.Errorf("a command that was begun %v ago has not arrived whole", time.Since(c.began).Round(time.Second)))
	}
}

// stranger says whether the client must authenticate and never has.
func (c *conn) stranger() bool { return c.tenant == nil && !c.authBy.IsZero() }

// late says whether the client should have authenticated by now.
func (c *conn) late() bool { return c.stranger() && !time.Now().Before(c.authBy) }

// malformed tells a client, the log and the metrics why the connection ends.
func (c *conn) malformed(err error) {
	c.s.cfg.Metrics.malformed.Inc()
	if unlogged, now := c.s.garbled.Now(time.Now()); now {
		c.s.cfg.Log.Warn("connection closed: not the Redis protocol", "resp", c.s.cfg.Address,
			"client", c.nc.RemoteAddr().String(), "error", err, "unlogged", unlogged)
	}
	c.w.fail(failure("ERR " + err.Error()))
	c.flush()
}

// errBuffersFull is returned when the unfinished commands of a tenant's connections take as much memory as they may.
var errBuffersFull = errors.New("too many unfinished commands on all connections together (redis.unfinished)")

// charge adds to what the connection's buffers take of the memory that all clients of the tenant share, and says whether it
// fits. A client that is nobody's yet cannot send so much that it would be charged.
func (c *conn) charge(delta int) bool {
	switch {
	case delta == 0 || c.tenant == nil:
	case delta > 0 && !c.tenant.Commands.Take(int64(delta)):
		return false
	case delta < 0:
		c.tenant.Commands.Give(int64(-delta))
	}
	c.charged += delta
	return true
}

// room makes room for what is to be read.
func (c *conn) room() ([]byte, error) {
	if c.buffers == nil {
		c.buffers = c.s.buffers.Get().(*buffers)
		c.in.buf, c.w.out = c.buffers.in, c.buffers.out
	}
	room := c.in.room(firstBuffer)
	if grown := c.held() - c.charged; grown > 0 && !c.charge(grown) {
		return nil, errBuffersFull
	}
	return room, nil
}

// setReadDeadline bounds the silence of the client, and how long a command takes to arrive. A deadline that is far enough is left
// alone: setting one costs more than a look at the clock.
func (c *conn) setReadDeadline() {
	var by time.Time
	if limit := c.s.cfg.IdleTimeout; limit > 0 {
		now := time.Now()
		by = now.Add(limit)
		if d := by.Sub(c.readBy); c.began.IsZero() && !c.stranger() && d >= 0 && d < limit/16 {
			return
		}
	}
	if !c.began.IsZero() {
		whole := c.began.Add(c.s.cfg.Timeout + time.Duration(len(c.in.buf)/slowest)*time.Second)
		if by.IsZero() || whole.Before(by) {
			by = whole
		}
	}
	if c.stranger() && (by.IsZero() || c.authBy.Before(by)) {
		by = c.authBy
	}
	if by.Equal(c.readBy) {
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
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.unread("connection closed: the client does not read its answers", "waited", writeTimeout.String())
	case errors.Is(err, socket.ErrUnread):
		c.unread("connection closed: too many answers wait for clients that do not read them", "limit", c.tenant.Unread.Limit())
	}
	return err
}

// unread counts and logs that the connection ends because its client does not read.
func (c *conn) unread(message string, attrs ...any) {
	if c.tenant != nil {
		c.s.refused(c.tenant, tenant.Unread, message, append(attrs, "client", c.nc.RemoteAddr().String())...)
	}
}

// flushInside flushes in the middle of the connection's turn, which is over while the client does not read.
func (c *conn) flushInside() error {
	c.turn.Leave()
	defer c.turn.Enter()
	return c.flush()
}

// serveCommands answers the whole commands that are there. It returns an error when the connection must end.
func (c *conn) serveCommands() error {
	for !c.quit {
		args, err := c.in.next()
		if errors.Is(err, errIncomplete) {
			return nil
		}
		if err != nil {
			c.turn.Leave() // the client may not read
			c.malformed(err)
			c.turn.Enter()
			return err
		}
		c.began = time.Time{} // what follows is another command
		c.serveCommand(args)
		if len(c.w.out) >= keptBuffer {
			if err := c.flushInside(); err != nil {
				return err
			}
		}
		c.turn.Served()
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
		if unlogged, now := c.s.browsed.Now(time.Now()); now {
			c.s.cfg.Log.Warn("connection closed: it speaks HTTP", "resp", c.s.cfg.Address, "client", c.nc.RemoteAddr().String(), "unlogged", unlogged)
		}
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
	case c.tenant == nil:
		return ""
	}
	if err := c.tenant.Ask(cmd.endsSomething(c, args)); err != nil {
		if unlogged, now := c.tenant.Logs(tenant.Rate); now {
			c.s.cfg.Log.Warn("request refused: the tenant asks too often", "resp", c.s.cfg.Address, "tenant", c.tenant.Name, "unlogged", unlogged)
		}
		return failure("THROTTLED " + err.Error())
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
