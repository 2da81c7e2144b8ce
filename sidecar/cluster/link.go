package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/socket"
)

const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

// pause says how long to wait before the next try: twice as long each time, of which the last half is left to chance so that
// hosts that lost a peer together do not come back together.
type pause struct {
	next   time.Duration
	random func() float64
}

func (p *pause) reset() { p.next = firstPause }

func (p *pause) take() time.Duration {
	half := p.next / 2
	p.next = min(2*p.next, maxPause)
	return half + time.Duration(p.random()*float64(half))
}

// link keeps a connection to a member, for as long as it is one.
type link struct {
	id      string
	dial    func(ctx context.Context, id, addr string) (*asker, error)
	addr    atomic.Pointer[string]
	current atomic.Pointer[asker] // nil: not connected
	trouble atomic.Pointer[string]
	kick    chan struct{} // holds one: there is reason to try at once
	trust   func() *trust
	report  func(l *link, err error)
	stop    context.CancelFunc
	logged  socket.Seldom
}

// ask asks the member if there is a connection.
func (l *link) ask(ctx context.Context, k kind, body []byte) ([]byte, error) {
	if a := l.current.Load(); a != nil {
		return a.ask(ctx, k, body)
	}
	why := "not yet tried"
	if t := l.trouble.Load(); t != nil {
		why = *t
	}
	return nil, fmt.Errorf("%w: no connection to node %s: %s", ErrNotSent, l.id, why)
}

// run connects, and connects again, until the context ends.
func (l *link) run(ctx context.Context, random func() float64) {
	p := pause{random: random}
	p.reset()
	for ctx.Err() == nil {
		if err := l.once(ctx, &p); ctx.Err() == nil {
			text := err.Error()
			l.trouble.Store(&text)
			l.report(l, err)
		}
		timer := time.NewTimer(p.take())
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-l.kick:
			p.reset()
		}
		timer.Stop()
	}
}

// once connects and stays connected for as long as it can. It returns why that ended.
func (l *link) once(ctx context.Context, p *pause) error {
	addr := *l.addr.Load()
	a, err := l.dial(ctx, l.id, addr)
	if err != nil {
		return err
	}
	p.reset()
	defer context.AfterFunc(ctx, func() { a.end(ErrClosed) })()
	l.current.Store(a)
	if addr != *l.addr.Load() { // moved did not see the connection
		a.end(errMoved)
	}
	a.review(l.trust()) // a Reload since the handshake did not see it
	a.run()
	l.current.Store(nil)
	return a.err
}

var errMoved = errors.New("the peer has another address now")

// reach has the link try at once, at an address.
func (l *link) reach(addr string) {
	l.addr.Store(&addr)
	if a := l.current.Load(); a != nil && a.addr != addr {
		a.end(errMoved)
	}
	l.wake()
}

// wake ends a pause.
func (l *link) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// dial connects to a member.
func (c *Cluster) dial(ctx context.Context, id, addr string) (*asker, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*c.cfg.DialTimeout)
	defer cancel()
	d := net.Dialer{Timeout: c.cfg.DialTimeout}
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	a, err := c.shake(ctx, nc, id, addr)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("handshake with %s as %s: %w", addr, c.cfg.protocol, err)
	}
	c.met(a.peer)
	return a, nil
}

// shake is the asker's side of the handshakes.
func (c *Cluster) shake(ctx context.Context, nc net.Conn, id, addr string) (*asker, error) {
	trust := c.trust.Load()
	t := tls.Client(nc, trust.tls())
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	node, err := trust.proof(t.ConnectionState())
	if err != nil {
		return nil, err
	}
	co := newConn(t, trust, &c.cfg)
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	if err := co.introduce(c.greeting(), id, node, c.cfg.DialTimeout); err != nil {
		return nil, err
	}
	return newAsker(co, addr, c.cfg.MaxQueue), nil
}
