package cluster

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// errSilent ends a connection on which nothing comes any more.
var errSilent = errors.New("the peer has fallen silent")

const (
	bufferSize  = 64 << 10
	silentTicks = 4 // of a silence: so many pings are sent in it, and a pause of this host's counts as one only
)

// conn is a peer connection after its handshake. One goroutine may read and one may write.
type conn struct {
	tls   *tls.Conn
	in    *bufio.Reader
	out   *bufio.Writer
	limit int      // bytes of a body that is read
	trust *trust   // by which the peer was let in
	peer  greeting // who is at the other end
	heard atomic.Bool

	writeTimeout, silence time.Duration

	once  sync.Once
	err   error         // why it ended; set before ended is closed
	ended chan struct{} // closed at its end
}

func newConn(t *tls.Conn, by *trust, cfg *Config) *conn {
	c := &conn{tls: t, trust: by, limit: cfg.MaxFrame, writeTimeout: cfg.WriteTimeout, silence: cfg.Silence, ended: make(chan struct{})}
	c.in = bufio.NewReaderSize(hearing{t, &c.heard}, bufferSize)
	c.out = bufio.NewWriterSize(t, bufferSize)
	return c
}

// hearing notes that bytes arrive.
type hearing struct {
	r     io.Reader
	heard *atomic.Bool
}

func (h hearing) Read(b []byte) (int, error) {
	n, err := h.r.Read(b)
	if n > 0 {
		h.heard.Store(true)
	}
	return n, err
}

// end ends the connection for a reason. Only the first one counts.
func (c *conn) end(why error) {
	c.once.Do(func() {
		c.err = why
		close(c.ended)
		_ = c.tls.NetConn().Close() // without TLS's farewell, which could wait for the peer
	})
}

// review ends the connection if the peer would not be let in any more.
func (c *conn) review(now *trust) {
	if c.trust == now {
		return
	}
	if _, err := now.proof(c.tls.ConnectionState()); err != nil {
		c.end(fmt.Errorf("it is not trusted any more: %w", err))
	}
}

func (c *conn) isEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

func (c *conn) read() (frame, error) { return readFrame(c.in, c.limit) }

// send writes a frame at once. It is for greetings, before write runs.
func (c *conn) send(f frame) error {
	if err := writeFrame(c.out, f); err != nil {
		return err
	}
	return c.out.Flush()
}

// writeQueue writes what comes by a queue until the connection ends, several frames at a time when they wait. What next refuses is left
// out. It also watches over the connection: it pings the peer, and gives it up when nothing comes.
func writeQueue[T any](c *conn, queue <-chan T, next func(T) (frame, bool), pings bool) {
	tick := time.NewTicker(c.silence / silentTicks)
	defer tick.Stop()
	missed := 0
	for {
		var err error
		select {
		case <-c.ended:
			return
		case v := <-queue:
			err = writeWaiting(c, v, queue, next)
		case <-tick.C:
			if missed++; c.heard.Swap(false) {
				missed = 0
			}
			switch {
			case missed >= silentTicks:
				err = errSilent
			case pings:
				c.tls.NetConn().SetWriteDeadline(time.Now().Add(c.writeTimeout))
				err = c.send(frame{kind: ping})
			}
		}
		if err != nil {
			c.end(err)
			return
		}
	}
}

// writeWaiting writes v and what waits in the queue behind it.
func writeWaiting[T any](c *conn, v T, queue <-chan T, next func(T) (frame, bool)) error {
	c.tls.NetConn().SetWriteDeadline(time.Now().Add(c.writeTimeout))
	for {
		if f, ok := next(v); ok {
			if err := writeFrame(c.out, f); err != nil {
				return err
			}
		}
		select {
		case v = <-queue:
			if c.out.Buffered() == 0 { // a full buffer went out: the peer does take it
				c.tls.NetConn().SetWriteDeadline(time.Now().Add(c.writeTimeout))
			}
		default:
			return c.out.Flush()
		}
	}
}
