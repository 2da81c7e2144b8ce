// Package client is a small client of the daemon's socket, for the shell commands, tests and measurements.
//
// A Client sends one request at a time. It is not safe for concurrent use.
package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// Client is one connection to a daemon.
type Client struct {
	path     string
	nc       net.Conn
	id       uint32
	in       []byte // read and not yet used
	out      []byte
	maxFrame int
	server   string
}

// Dial connects to the socket at path and says hello under name.
func Dial(ctx context.Context, path, name string) (*Client, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, explain(path, err)
	}
	c := &Client{path: path, nc: nc, maxFrame: wire.DefaultMaxFrame}
	answer, err := c.Call(ctx, "hello", wire.Pairs{
		{Key: "version", Value: wire.Version},
		{Key: "client", Value: name},
		{Key: "pid", Value: os.Getpid()},
		{Key: "sapi", Value: name},
	})
	if err != nil {
		nc.Close()
		return nil, err
	}
	hello, _ := answer.(map[string]any)
	c.server, _ = hello["server"].(string)
	if n, ok := hello["max_frame"].(int64); ok {
		c.maxFrame = int(n)
	}
	return c, nil
}

// explain says what a failed connection means.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("no daemon at %s: there is no such socket; is coatcheck running, and with this --socket?", path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no daemon at %s: the socket is there but nobody listens; start coatcheck", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("not allowed to use %s: join the socket's group or run as its owner", path)
	}
	return fmt.Errorf("connect to %s: %w", path, err)
}

// Server returns the daemon's version.
func (c *Client) Server() string { return c.server }

// Close closes the connection. Bound locks taken through it are released.
func (c *Client) Close() error { return c.nc.Close() }

// Call sends one request and returns its result, as wire.DecodeResponse makes it. A failure that the daemon reports is
// a *wire.Error, as is a request that is too large for it; after any other error the Client is of no more use, and what
// became of the request is unknown. Such an error wraps context.DeadlineExceeded when ctx's time was up.
func (c *Client) Call(ctx context.Context, method string, params wire.Pairs) (any, error) {
	c.id++
	c.out = wire.AppendRequest(c.out[:0], c.id, method, params)
	if size := len(c.out) - wire.HeaderSize; size > c.maxFrame {
		return nil, wire.TooLargeError("the request", size, c.maxFrame)
	}
	deadline, _ := ctx.Deadline() // the zero time means none
	c.nc.SetDeadline(deadline)
	defer c.interrupt(ctx)()
	if _, err := c.nc.Write(c.out); err != nil {
		return nil, c.failed(ctx, method, err)
	}
	frame, err := c.read()
	if err != nil {
		return nil, c.failed(ctx, method, err)
	}
	id, result, err := wire.DecodeResponse(frame)
	if err == nil && id != c.id {
		return nil, fmt.Errorf("%s at %s: the answer is to request %d, not %d", method, c.path, id, c.id)
	}
	return result, err
}

// Idle waits for d, or until ctx ends, which is no error. It returns one as soon as the daemon closes the connection.
func (c *Client) Idle(ctx context.Context, d time.Duration) error {
	c.nc.SetReadDeadline(time.Now().Add(d))
	defer c.interrupt(ctx)()
	var unasked [1]byte
	_, err := c.nc.Read(unasked[:])
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	case err == nil:
		err = errors.New("the daemon sent what nobody asked for")
	}
	return c.failed(context.Background(), "connection", err)
}

// interrupt makes reads and writes fail when ctx ends, until the function that it returns is called.
func (c *Client) interrupt(ctx context.Context) (end func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		c.nc.SetDeadline(time.Unix(1, 0))
	})
	return func() {
		if !stop() {
			<-done // or it might fall upon the next call
		}
	}
}

func (c *Client) failed(ctx context.Context, what string, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		err = ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded): // ctx's, which may be a moment behind
		err = fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		err = fmt.Errorf("the daemon closed the connection: %w", err)
	}
	return fmt.Errorf("%s at %s: %w", what, c.path, err)
}

// answerSlack is what an answer may have beyond the frame limit: a session's data with the words around it.
const answerSlack = 16 << 10

// read returns the next frame, which is valid until the next read.
func (c *Client) read() ([]byte, error) {
	c.in = c.in[:0]
	for {
		frame, _, err := wire.Next(c.in, c.maxFrame+answerSlack)
		if !errors.Is(err, wire.ErrIncomplete) {
			return frame, err
		}
		if len(c.in) == cap(c.in) {
			c.in = append(c.in, make([]byte, max(4096, len(c.in)))...)[:len(c.in)]
		}
		n, err := c.nc.Read(c.in[len(c.in):cap(c.in)])
		c.in = c.in[:len(c.in)+n]
		if n == 0 && err != nil {
			return nil, err
		}
	}
}
