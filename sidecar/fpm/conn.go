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

// conn is one connection to php-fpm, for one request.
type conn struct {
	net.Conn
	records *bufio.Reader // reads through Read
	timeout time.Duration
}

// Read reads from php-fpm, and gives up after the time-out.
func (c *conn) Read(p []byte) (int, error) {
	c.SetReadDeadline(time.Now().Add(c.timeout))
	return c.Conn.Read(p)
}

// Write writes to php-fpm, and gives up after the time-out.
func (c *conn) Write(p []byte) (int, error) {
	c.SetWriteDeadline(time.Now().Add(c.timeout))
	return c.Conn.Write(p)
}

// dialer makes the connections to php-fpm, one for each request. They are not kept: a kept connection
// occupies a worker, and docs/decisions/0002-fastcgi-client.md has what keeping them gained.
type dialer struct {
	network, address string
	dialTimeout      time.Duration
	timeout          time.Duration
	readers          sync.Pool // of *bufio.Reader
}

func newDialer(network, address string, cfg Config) *dialer {
	d := &dialer{network: network, address: address, dialTimeout: cfg.DialTimeout, timeout: cfg.Timeout}
	d.readers.New = func() any { return bufio.NewReaderSize(nil, readBufferLen) }
	return d
}

// dial connects to php-fpm. It returns ErrUnavailable, ErrBusy or ErrVisitorGone. The caller closes the connection with
// close.
func (d *dialer) dial(ctx context.Context) (*conn, error) {
	nd := net.Dialer{Timeout: d.dialTimeout}
	nc, err := nd.DialContext(ctx, d.network, d.address)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w while connecting to %s", ErrVisitorGone, d.address)
	case errors.Is(err, syscall.EAGAIN): // the backlog of a Unix socket is full
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	default:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	c := &conn{Conn: nc, timeout: d.timeout}
	c.records = d.readers.Get().(*bufio.Reader)
	c.records.Reset(c)
	return c, nil
}

// close closes c and gives its buffer back.
func (d *dialer) close(c *conn) {
	c.Conn.Close()
	c.records.Reset(nil)
	d.readers.Put(c.records)
}

// isReset reports whether err says that the peer closed a connection without reading all it was sent.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
