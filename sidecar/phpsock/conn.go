package phpsock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/socket"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/tenant"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

const (
	// firstBuffer is a connection's buffer at first: most requests fit, and idle connections stay small.
	firstBuffer = 4 << 10
	// keptBuffer is the largest buffer that a connection keeps between requests, and the amount of answers that is written
	// without waiting for more.
	keptBuffer = 64 << 10
	// writeTimeout is how long a client may take to accept an answer.
	writeTimeout = 10 * time.Second
	// maxWaits is how many requests of one connection may wait at a time.
	maxWaits = 128
)

// conn is one connection. Its fields belong to the goroutine that runs serve, except where noted.
type conn struct {
	s      *Server
	nc     *net.UnixConn
	socket *socket.Socket // of nc
	client *locker.Client
	peer   peer
	who    *store.Who // shared with the locks it took: replaced, never changed
	bucket string     // the last one used, so that its name is made once

	seat    *tenant.Seat
	tryRead func(uintptr) bool // a method value, made once
	readErr error              // of the last read

	*buffers             // nil while the client is silent
	charged  int64       // what in has of the tenant's quota
	began    time.Time   // when the client fell silent within a message; zero: it did not
	readBy   time.Time   // the deadline of reading, as it is set
	deserted atomic.Bool // the server closes

	req     wire.Request
	cmd     store.Command
	greeted bool

	write sync.Mutex     // held while writing to nc
	waits sync.WaitGroup // one for each request that waits
	slots chan struct{}  // bounds waits

	request context.Context    // of the waits; nil: none has begun in this PHP request
	drop    context.CancelFunc // ends request
}

// buffers are what a connection needs while its client says something.
type buffers struct {
	in  []byte // bytes read; the first frame begins at its front
	out []byte // answers not yet written
}

// peer is who the kernel says is at the other end.
type peer struct{ pid, uid int }

func newConn(s *Server, nc *net.UnixConn) (*conn, error) {
	sock, err := socket.New(nc, s.patience)
	if err != nil {
		return nil, err
	}
	sock.Charge(&s.cfg.Tenant.Unread)
	p := peerOf(sock.Raw())
	c := &conn{
		s: s, nc: nc, socket: sock, peer: p, seat: s.cfg.Tenant.Seat(),
		client: s.locker.NewClient(),
		who:    &store.Who{PID: p.pid},
		began:  time.Now(),
	}
	c.tryRead = c.read
	return c, nil
}

// nobody is no user's number.
const nobody = -1

func peerOf(raw syscall.RawConn) peer {
	p := peer{uid: nobody}
	raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			p = peer{pid: int(cred.Pid), uid: int(cred.Uid)}
		}
	})
	return p
}

// refuse answers with an error that belongs to no request and closes the connection.
func (c *conn) refuse(e *wire.Error) {
	c.send(wire.AppendError(nil, 0, e))
	c.client.Close()
	c.s.conns.TurnAway(c.nc)
}

// abandon makes serve return, and leaves the client's locks to their leases.
func (c *conn) abandon() {
	c.client.Abandon()
	c.deserted.Store(true)
	c.nc.SetReadDeadline(time.Unix(1, 0))
}

// serve reads and answers until the connection ends.
func (c *conn) serve() {
	defer c.s.dismiss()
	defer c.nc.Close()
	defer c.rest()
	defer c.waits.Wait()
	defer c.client.Close()
	for {
		if err := c.fill(); err != nil {
			c.cutOff(err)
			return
		}
		c.seat.Enter()
		err := c.serveFrames()
		c.seat.Leave()
		if c.flush() != nil || err != nil {
			return
		}
	}
}

// fill reads what has arrived, and waits for something to arrive.
func (c *conn) fill() error {
	if err := c.socket.EachTime(c.tryRead); err != nil {
		return err
	}
	return c.readErr
}

// read is one try to read. It returns false when the client has to say something first.
func (c *conn) read(fd uintptr) bool {
	if c.readErr = c.makeRoom(); c.readErr != nil {
		return true
	}
	var n int
	n, c.readErr = socket.ReadNow(fd, c.in[len(c.in):cap(c.in)])
	if c.readErr == socket.ErrNotYet {
		c.readErr = c.pause()
		return c.readErr != nil
	}
	c.in = c.in[:len(c.in)+n]
	return true
}

// pause makes an end to what a client that says no more may hold: its buffers if it has said all, its time if it has not.
func (c *conn) pause() error {
	c.seat.Idle()
	var by time.Time
	switch {
	case len(c.in) == 0 && c.greeted:
		c.began = time.Time{}
		c.rest()
	case c.began.IsZero():
		c.began = time.Now()
		fallthrough
	default:
		by = c.began.Add(c.s.cfg.Timeout)
		if held := int64(cap(c.in) - firstBuffer); held > c.charged { // another connection has grown this buffer
			if !c.s.cfg.Tenant.Unfinished.Take(held - c.charged) {
				return errUnfinished
			}
			c.charged = held
		}
	}
	if by != c.readBy {
		c.readBy = by
		c.nc.SetReadDeadline(by)
		if c.deserted.Load() { // abandon may have set it just before
			c.nc.SetReadDeadline(time.Unix(1, 0))
		}
	}
	return nil
}

// errUnfinished is returned when the messages that have not arrived whole, and what requests that wait keep, take as much
// memory as they may.
var errUnfinished = errors.New("too many unfinished messages of this tenant's clients together (limits.unfinished)")

// unfinishedError is what the client is told of errUnfinished.
func unfinishedError() *wire.Error {
	return &wire.Error{
		Code: wire.Unavailable, Message: errUnfinished.Error(), Details: wire.Pairs{{Key: "reason", Value: tenant.Unfinished.String()}},
	}
}

// makeRoom makes room for what is to be read, in a buffer that another connection does not need now or, when a frame
// needs it, at most as much again as is there.
func (c *conn) makeRoom() error {
	if c.buffers == nil {
		c.buffers = c.s.buffers.Get().(*buffers)
	}
	if len(c.in) < cap(c.in) {
		return nil
	}
	more := int64(max(len(c.in), firstBuffer))
	if !c.s.cfg.Tenant.Unfinished.Take(more) {
		return errUnfinished
	}
	c.charged += more
	c.in = slices.Grow(c.in, int(more))
	return nil
}

// rest gives the buffers to whoever needs them next.
func (c *conn) rest() {
	c.discharge()
	if c.buffers != nil && cap(c.in) <= keptBuffer {
		c.in, c.out = c.in[:0], c.out[:0]
		c.s.buffers.Put(c.buffers)
	}
	c.buffers = nil
}

// discharge gives back what the connection's buffer had of the tenant's quota.
func (c *conn) discharge() {
	if c.charged > 0 {
		c.s.cfg.Tenant.Unfinished.Give(c.charged)
		c.charged = 0
	}
}

// cutOff says to a client, if it listens, why it is not listened to any more.
func (c *conn) cutOff(err error) {
	switch {
	case errors.Is(err, errUnfinished):
		c.s.refused(tenant.Unfinished, "connection closed: too many unfinished messages", "pid", c.peer.pid,
			"limit", c.s.cfg.Tenant.Unfinished.Limit())
		c.send(wire.AppendError(nil, 0, unfinishedError()))
	case errors.Is(err, os.ErrDeadlineExceeded) && !c.deserted.Load():
		what := "a message that was begun"
		if !c.greeted {
			what = "hello"
		}
		c.malformed(&wire.Error{Code: wire.Protocol, Message: fmt.Sprintf("%s did not arrive whole within %v", what, c.s.cfg.Timeout)})
	}
}

// malformed tells a client, the log and the metrics why the connection ends.
func (c *conn) malformed(err error) {
	c.s.cfg.Metrics.malformed.Inc()
	if unlogged, now := c.s.garbled.Now(time.Now()); now {
		c.s.cfg.Log.Warn("connection closed: not the client protocol",
			"socket", c.s.cfg.Path, "pid", c.peer.pid, "uid", c.peer.uid, "error", err, "unlogged", unlogged)
	}
	c.flush() // what was answered comes first
	c.send(wire.AppendError(nil, 0, asError(err)))
}

// serveFrames serves the whole frames that are there and keeps what follows them. It returns an error
// when the connection must end.
func (c *conn) serveFrames() error {
	rest := c.in
	for {
		frame, after, err := wire.Next(rest, c.s.cfg.MaxFrame)
		if errors.Is(err, wire.ErrIncomplete) {
			break
		}
		if err == nil {
			err = c.serveFrame(frame)
		}
		if err != nil {
			c.seat.Leave() // the client may not read
			c.malformed(err)
			c.seat.Enter()
			return err
		}
		rest = after
		c.began = time.Time{} // what follows is another message
		if len(c.out) >= keptBuffer {
			if err := c.flushInside(); err != nil {
				return err
			}
		}
		c.seat.Served()
	}
	c.keep(rest)
	c.forget()
	return nil
}

// forget drops what the last request points to: the buffer it came in belongs to others from now on, or to nobody, and is
// not counted any more.
func (c *conn) forget() {
	c.req.Params.Forget()
	c.cmd = store.Command{}
}

// flushInside flushes in the middle of the connection's turn, which is over while the client does not read.
func (c *conn) flushInside() error {
	c.seat.Leave()
	defer c.seat.Enter()
	return c.flush()
}

// keep moves an unfinished frame to the front of the buffer, of a small one if it can be.
func (c *conn) keep(rest []byte) {
	if len(rest) == 0 && cap(c.in) > keptBuffer {
		c.discharge()
		c.in = make([]byte, 0, firstBuffer)
		return
	}
	c.in = c.in[:copy(c.in, rest)]
}

// flush writes the answers that have come together.
func (c *conn) flush() error {
	if c.buffers == nil {
		return nil
	}
	var err error
	if len(c.out) > 0 {
		err = c.send(c.out)
	}
	if cap(c.out) > keptBuffer { // also after a notification, whose answer nobody wants
		c.out = nil
	}
	c.out = c.out[:0]
	return err
}

// sendPaid is send for what was taken from the tenant's unread before it was made.
func (c *conn) sendPaid(frames []byte) {
	c.write.Lock()
	defer c.write.Unlock()
	c.unread(c.socket.WritePaid(frames))
}

// send writes whole frames. Any goroutine may call it.
func (c *conn) send(frames []byte) error {
	if err := c.lockToWrite(len(frames)); err != nil {
		return c.unread(err)
	}
	defer c.write.Unlock()
	return c.unread(c.socket.Write(frames))
}

// lockToWrite locks c.write. Answers that wait for it wait for the client as much as the one before them.
func (c *conn) lockToWrite(size int) error {
	if c.write.TryLock() {
		return nil
	}
	unread := &c.s.cfg.Tenant.Unread
	if !unread.Take(int64(size)) {
		return socket.ErrUnread
	}
	c.write.Lock()
	unread.Give(int64(size))
	return nil
}

// unread closes the connection after a write that failed: half a frame may be out, and nothing may follow it.
func (c *conn) unread(err error) error {
	if err == nil {
		return nil
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.s.refused(tenant.Unread, "connection closed: the client does not read its answers", "pid", c.peer.pid, "waited", c.s.patience.String())
	case errors.Is(err, socket.ErrUnread):
		c.s.refused(tenant.Unread, "connection closed: too many answers wait for clients that do not read them", "pid", c.peer.pid,
			"limit", c.s.cfg.Tenant.Unread.Limit())
	}
	c.nc.Close()
	return err
}

// serveFrame serves one message. It returns an error when the connection must end.
func (c *conn) serveFrame(frame []byte) error {
	err := c.req.Decode(frame)
	if errors.Is(err, wire.ErrMalformed) {
		return err
	}
	r := &c.req
	if err == nil && !c.greeted && r.Method != wire.Hello {
		return &wire.Error{Code: wire.Protocol, Message: "the first message must be hello"}
	}
	start := len(c.out)
	c.out = wire.BeginResponse(c.out, r.ID)
	if err == nil {
		c.out, err = c.call(r, c.out)
	}
	w, waits := err.(*wait) // as handlers return it
	switch {
	case waits:
		c.out = c.out[:start]
		err = c.later(r, w)
		if err != nil {
			c.out = wire.AppendError(c.out, r.ID, asError(err))
		}
	case err != nil:
		c.out = wire.AppendError(c.out[:start], r.ID, asError(err))
	default:
		c.out = wire.EndResponse(c.out, start)
	}
	if !waits || err != nil {
		c.s.cfg.Metrics.count(r.Method, err)
	}
	if r.Notification {
		c.out = c.out[:start]
	}
	return nil
}

// call runs the request's handler, which appends the result to out.
func (c *conn) call(r *wire.Request, out []byte) ([]byte, error) {
	h := &handlers[r.Method]
	if err := h.availableIn(c.s.phase()); err != nil {
		return out, err
	}
	if err := c.s.cfg.Tenant.Ask(h.endsWith(&r.Params, r.Method)); err != nil {
		return out, c.s.tooFast(err)
	}
	out, err := h.serve(c, &r.Params, out)
	if limit := c.s.cfg.MaxFrame + answerSlack; err == nil && len(out)-len(c.out) > limit {
		return out, wire.TooLargeError("the answer", len(out)-len(c.out), limit)
	}
	return out, err
}

// answerSlack is what an answer may have beyond a frame's limit: a session that fitted into its commit must fit into
// the answer that opens it, with the words around it.
const answerSlack = 8 << 10

// wait is returned by a handler, as its error, when the answer has to wait. run waits and appends the result; it uses
// nothing of the request, whose frame is gone by then.
type wait struct {
	run   func(ctx context.Context, out []byte) ([]byte, error)
	quota *tenant.Quota // of which the wait has taken 1, for as long as it lasts; nil: none
	kept  int64         // bytes of the request that are kept for as long: of the tenant's unfinished ones

	paid  int64  // bytes of the tenant's unread answers that run has taken for this one
	after func() // set by run: what is to be done when the answer is written; nil: nothing
}

// keeps returns how many bytes a wait for a key or a lock keeps of its request: they are in its command and in the name that it waits for.
func keeps(cmd *store.Command) int64 { return 2 * int64(len(cmd.Key)+len(cmd.Token)) }

// pay takes room for an answer of the wait before it is made: many may be about to be made at once.
func (w *wait) pay(t *tenant.Tenant, bytes int) error {
	if !t.Unread.Take(int64(bytes)) {
		return socket.ErrUnread
	}
	w.paid += int64(bytes)
	return nil
}

// over gives back what the wait took for as long as it lasts.
func (w *wait) over(t *tenant.Tenant) {
	if w.quota != nil {
		w.quota.Give(1)
	}
	t.Unfinished.Give(w.kept)
}

// answered gives back what the answer took.
func (w *wait) answered(t *tenant.Tenant) {
	t.Unread.Give(w.paid)
	if w.after != nil {
		w.after()
	}
}

func (*wait) Error() string { return "the answer has to wait" }

// later answers the request when its wait is over.
func (c *conn) later(r *wire.Request, w *wait) error {
	if err := c.takeSlot(w); err != nil {
		return err
	}
	if c.request == nil {
		c.request, c.drop = context.WithCancel(context.Background())
	}
	ctx, id, method, unanswered := c.request, r.ID, r.Method, r.Notification
	c.waits.Go(func() {
		defer func() { <-c.slots }()
		out, err := w.run(ctx, wire.BeginResponse(nil, id))
		w.over(c.s.cfg.Tenant)
		defer w.answered(c.s.cfg.Tenant)
		switch {
		case errors.Is(err, locker.ErrClosed), errors.Is(err, context.Canceled):
			return // nobody is there for the answer any more
		case errors.Is(err, socket.ErrUnread):
			c.unread(err)
			return
		case err != nil:
			out = wire.AppendError(nil, id, asError(err))
		default:
			out = wire.EndResponse(out, 0)
		}
		c.s.cfg.Metrics.count(method, err)
		switch {
		case unanswered:
		case w.paid > 0:
			c.sendPaid(out)
		default:
			c.send(out)
		}
	})
	return nil
}

// takeSlot finds a place for a wait, or says why there is none.
func (c *conn) takeSlot(w *wait) error {
	t := c.s.cfg.Tenant
	if c.slots == nil {
		c.slots = make(chan struct{}, maxWaits)
	}
	if !t.Unfinished.Take(w.kept) {
		w.kept = 0
		w.over(t)
		c.s.refused(tenant.Unfinished, "wait refused: too many unfinished messages", "pid", c.peer.pid, "limit", t.Unfinished.Limit())
		return unfinishedError()
	}
	select {
	case c.slots <- struct{}{}:
		return nil
	default:
		w.over(t)
		return &wire.Error{Code: wire.Unavailable, Message: "too many requests of this connection wait already"}
	}
}

// dropWaits ends the waits of the PHP request that is over. They are not answered.
func (c *conn) dropWaits() {
	if c.request != nil {
		c.drop()
		c.request = nil
	}
}

// command returns the connection's command, cleared, for a key in a bucket.
func (c *conn) command(op store.Op, bucket, key []byte) *store.Command {
	if string(bucket) != c.bucket {
		c.bucket = string(bucket)
	}
	c.cmd = store.Command{Op: op, Space: store.Space{Tenant: c.s.cfg.Tenant.Name, Bucket: c.bucket}, Key: key}
	return &c.cmd
}

// do has a command decided without waiting.
func (c *conn) do(cmd *store.Command) (store.Result, error) {
	return c.client.Do(context.Background(), cmd)
}

// whoRuns returns who asks, with the script that runs now.
func (c *conn) whoRuns(script []byte) *store.Who {
	const shown = 1 << 10
	if script = script[:min(len(script), shown)]; string(script) != c.who.Script {
		who := *c.who
		who.Script = string(script)
		c.who = &who
	}
	return c.who
}

// own returns a copy of a command that outlives its frame.
func own(cmd *store.Command) *store.Command {
	o := *cmd
	o.Key, o.Token = slices.Clone(cmd.Key), slices.Clone(cmd.Token)
	return &o
}
