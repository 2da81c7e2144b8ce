package phpsock

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/socket"
	"github.com/coatcheck/coatcheck/sidecar/store"
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

	in      []byte // bytes read; the first frame begins at its front
	out     []byte // answers not yet written
	req     wire.Request
	cmd     store.Command
	greeted bool

	write sync.Mutex     // held while writing to nc
	waits sync.WaitGroup // one for each request that waits
	slots chan struct{}  // bounds waits

	request context.Context    // of the waits; nil: none has begun in this PHP request
	drop    context.CancelFunc // ends request
}

// peer is who the kernel says is at the other end.
type peer struct{ pid, uid int }

func newConn(s *Server, nc *net.UnixConn) (*conn, error) {
	sock, err := socket.New(nc, s.patience)
	if err != nil {
		return nil, err
	}
	p := peerOf(sock.Raw())
	return &conn{
		s: s, nc: nc, socket: sock, peer: p,
		client: s.locker.NewClient(),
		who:    &store.Who{PID: p.pid},
		in:     make([]byte, 0, firstBuffer),
	}, nil
}

func peerOf(raw syscall.RawConn) (p peer) {
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
	c.nc.Close()
}

// abandon makes serve return, and leaves the client's locks to their leases.
func (c *conn) abandon() {
	c.client.Abandon()
	c.nc.SetReadDeadline(time.Unix(1, 0))
}

// serve reads and answers until the connection ends.
func (c *conn) serve() {
	defer c.nc.Close()
	defer c.waits.Wait()
	defer c.client.Close()
	for {
		if err := c.fill(); err != nil {
			return
		}
		err := c.serveFrames()
		if c.flush() != nil || err != nil {
			return
		}
	}
}

// fill reads what has arrived, making room when a frame needs it: at most as much again as is there.
func (c *conn) fill() error {
	if len(c.in) == cap(c.in) {
		c.in = slices.Grow(c.in, max(len(c.in), firstBuffer))
	}
	n, err := c.socket.Read(c.in[len(c.in):cap(c.in)])
	c.in = c.in[:len(c.in)+n]
	if n > 0 {
		return nil
	}
	return err
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
			c.out = wire.AppendError(c.out, 0, asError(err))
			c.s.cfg.Metrics.malformed.Inc()
			c.s.cfg.Log.Warn("connection closed: not the client protocol",
				"socket", c.s.cfg.Path, "pid", c.peer.pid, "uid", c.peer.uid, "error", err)
			return err
		}
		rest = after
		if len(c.out) >= keptBuffer {
			if err := c.flush(); err != nil {
				return err
			}
		}
	}
	c.keep(rest)
	return nil
}

// keep moves an unfinished frame to the front of the buffer, of a small one if it can be.
func (c *conn) keep(rest []byte) {
	if len(rest) == 0 && cap(c.in) > keptBuffer {
		c.in = make([]byte, 0, firstBuffer)
		return
	}
	c.in = c.in[:copy(c.in, rest)]
}

// flush writes the answers that have come together.
func (c *conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	err := c.send(c.out)
	if cap(c.out) > keptBuffer {
		c.out = nil
	}
	c.out = c.out[:0]
	return err
}

// send writes whole frames. Any goroutine may call it.
func (c *conn) send(frames []byte) error {
	c.write.Lock()
	defer c.write.Unlock()
	err := c.socket.Write(frames)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.s.cfg.Log.Warn("connection closed: the client does not read its answers",
			"socket", c.s.cfg.Path, "pid", c.peer.pid, "waited", c.s.patience.String())
	}
	if err != nil {
		c.nc.Close() // half a frame may be out: nothing may follow it
	}
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
	run func(ctx context.Context, out []byte) ([]byte, error)
}

func (*wait) Error() string { return "the answer has to wait" }

// later answers the request when its wait is over.
func (c *conn) later(r *wire.Request, w *wait) error {
	if c.slots == nil {
		c.slots = make(chan struct{}, maxWaits)
	}
	select {
	case c.slots <- struct{}{}:
	default:
		return &wire.Error{Code: wire.Unavailable, Message: "too many requests of this connection wait already"}
	}
	if c.request == nil {
		c.request, c.drop = context.WithCancel(context.Background())
	}
	ctx, id, method, unanswered := c.request, r.ID, r.Method, r.Notification
	c.waits.Go(func() {
		defer func() { <-c.slots }()
		out, err := w.run(ctx, wire.BeginResponse(nil, id))
		if errors.Is(err, locker.ErrClosed) || errors.Is(err, context.Canceled) {
			return // nobody is there for the answer any more
		}
		if err != nil {
			out = wire.AppendError(nil, id, asError(err))
		} else {
			out = wire.EndResponse(out, 0)
		}
		c.s.cfg.Metrics.count(method, err)
		if !unanswered {
			c.send(out)
		}
	})
	return nil
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
	c.cmd = store.Command{Op: op, Space: store.Space{Tenant: c.s.cfg.Tenant, Bucket: c.bucket}, Key: key}
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
