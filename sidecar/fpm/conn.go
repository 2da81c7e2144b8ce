package fpm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// readBufferLen holds a small page in one read, and a large one in few.
const readBufferLen = 16 << 10

// conn is one connection to a php-fpm worker, used by one request at a time.
type conn struct {
	net.Conn
	records *bufio.Reader // reads through deadlineReader
	timeout time.Duration

	// fresh means that no byte of an answer has come yet; only a fresh connection can still be
	// waiting for a worker. Guarded by conns.mu once handed out.
	fresh bool

	// begun means that the record which opens the next request has been sent already.
	begun bool

	// born is when the connection was made; life after that is bounded by conns.keepAlive.
	born   time.Time
	expiry *time.Timer
}

// Read reads from the worker, and gives up after the time-out.
func (c *conn) Read(p []byte) (int, error) {
	c.SetReadDeadline(time.Now().Add(c.timeout))
	return c.Conn.Read(p)
}

// Write writes to the worker, and gives up after the time-out.
func (c *conn) Write(p []byte) (int, error) {
	c.SetWriteDeadline(time.Now().Add(c.timeout))
	return c.Conn.Write(p)
}

// conns makes connections to php-fpm and keeps some of them for the next request.
//
// A kept connection occupies its worker, and a worker that runs on after fastcgi_finish_request()
// looks finished while it is not. Four rules keep that from delaying anybody:
//
//   - When a connection is put back, the record that opens the next request is sent at once. The
//     connection is used again only after the worker has taken that record, which proves that it waits
//     for the rest. This needs to see what the peer has not read, so TCP connections are not kept.
//   - While a fresh connection waits for a worker, connections are closed instead of put back, and
//     if none of the kept ones can be used, they are closed for it.
//   - A connection lives for keepAlive at most, in use or not, so the pool's other clients get
//     their turn.
//   - There can be no more kept connections than workers: each was answered by a worker that
//     still holds it.
type conns struct {
	network, address string
	dialTimeout      time.Duration
	timeout          time.Duration
	keepAlive        time.Duration

	readers sync.Pool // of *bufio.Reader

	mu      sync.Mutex
	idle    []*conn // the longest kept first; that one is the most likely to be ready
	waiting int     // fresh connections that have not been answered yet
	closed  bool
}

func newConns(network, address string, cfg Config) *conns {
	p := &conns{
		network: network, address: address,
		dialTimeout: cfg.DialTimeout, timeout: cfg.Timeout, keepAlive: cfg.KeepAlive,
	}
	if network != "unix" || !canSeeUnread {
		p.keepAlive = -1
	}
	p.readers.New = func() any { return bufio.NewReaderSize(nil, readBufferLen) }
	return p
}

// get returns a kept connection whose worker waits for a request, or else a new one.
func (p *conns) get(ctx context.Context) (*conn, error) {
	if c := p.takeIdle(); c != nil {
		return c, nil
	}
	c, err := p.dial(ctx)
	if err != nil {
		p.mu.Lock()
		p.waiting--
		p.mu.Unlock()
		return nil, err
	}
	return c, nil
}

// takeIdle returns a kept connection that is ready. If there is none, it counts the caller among those
// that wait for a worker, in the same critical section: a connection put back afterwards is closed for it.
func (p *conns) takeIdle() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range p.idle {
		if ready(c.Conn) {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			return c
		}
	}
	for _, c := range p.idle {
		p.release(c)
	}
	p.idle = p.idle[:0]
	p.waiting++
	return nil
}

func (p *conns) dial(ctx context.Context) (*conn, error) {
	d := net.Dialer{Timeout: p.dialTimeout}
	nc, err := d.DialContext(ctx, p.network, p.address)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w while connecting to %s", ErrVisitorGone, p.address)
	case errors.Is(err, syscall.EAGAIN):
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	default:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	c := &conn{Conn: nc, timeout: p.timeout, fresh: true}
	c.records = p.readers.Get().(*bufio.Reader)
	c.records.Reset(c)
	if p.keepAlive > 0 {
		c.born = time.Now()
	}
	return c, nil
}

// answered notes that a worker has begun to answer on c.
func (p *conns) answered(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unwait(c)
}

func (p *conns) unwait(c *conn) {
	if c.fresh {
		c.fresh = false
		p.waiting--
	}
}

// put takes back a connection after the proper end of an answer, to keep or to close it.
func (p *conns) put(c *conn) {
	if p.keepAlive <= 0 || c.records.Buffered() > 0 || time.Since(c.born) > p.keepAlive {
		p.close(c)
		return
	}
	var begin [2 * recordHeaderLen]byte
	if _, err := c.Write(appendBegin(begin[:0], true)); err != nil {
		p.close(c)
		return
	}
	c.begun = true
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.waiting > 0 {
		p.release(c)
		return
	}
	p.idle = append(p.idle, c)
	if c.expiry == nil {
		c.expiry = time.AfterFunc(p.keepAlive-time.Since(c.born), func() { p.expire(c) })
	}
}

// expire closes c if it is not in use; put closes it otherwise.
func (p *conns) expire(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, k := range p.idle {
		if k == c {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			p.release(c)
			return
		}
	}
}

// close closes a connection that get returned.
func (p *conns) close(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unwait(c)
	p.release(c)
}

// release closes c and gives its buffer back. It is called with mu held; nobody else uses c.
func (p *conns) release(c *conn) {
	c.Conn.Close()
	if c.expiry != nil {
		c.expiry.Stop()
	}
	c.records.Reset(nil)
	p.readers.Put(c.records)
}

// shut closes the kept connections, and those in use as soon as they are put back.
func (p *conns) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		p.release(c)
	}
	p.idle = nil
}

// isReset reports whether err says that the peer closed a connection without reading all it was sent.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
