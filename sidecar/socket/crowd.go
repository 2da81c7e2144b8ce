package socket

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

// Accept hands each connection of a listener to admit, until the listener is closed. address is what the log calls it.
func Accept(l net.Listener, address string, log *slog.Logger, admit func(net.Conn)) error {
	for {
		nc, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
			log.Error("cannot accept a connection: no file descriptors left; raise LimitNOFILE", "address", address)
			time.Sleep(50 * time.Millisecond) // accept would fail at once again
		case err != nil:
			return fmt.Errorf("accept on %s: %w", address, err)
		default:
			admit(nc)
		}
	}
}

// Admission says what became of a connection that asked to join a Crowd.
type Admission uint8

const (
	Admitted Admission = iota
	Full               // the limit is reached
	Closed             // the crowd is closed
)

// Crowd holds the open connections of a server, each of type C. It is safe for concurrent use.
type Crowd[C comparable] struct {
	limit  int
	mu     sync.Mutex
	conns  map[C]struct{} // guarded by mu
	closed bool           // guarded by mu
	wg     sync.WaitGroup // one for each connection
}

// NewCrowd returns a crowd of at most limit connections.
func NewCrowd[C comparable](limit int) *Crowd[C] {
	return &Crowd[C]{limit: limit, conns: make(map[C]struct{})}
}

// Admit serves a connection in a goroutine of its own and keeps it until serve returns, if there is room.
func (g *Crowd[C]) Admit(c C, serve func()) Admission {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return Closed
	case len(g.conns) >= g.limit:
		return Full
	}
	g.conns[c] = struct{}{}
	g.wg.Go(func() {
		serve()
		g.mu.Lock()
		delete(g.conns, c)
		g.mu.Unlock()
	})
	return Admitted
}

// Len returns how many connections are open.
func (g *Crowd[C]) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.conns)
}

// Close admits nobody any more, interrupts every connection, and returns when they all have ended.
func (g *Crowd[C]) Close(interrupt func(C)) {
	g.mu.Lock()
	g.closed = true
	for c := range g.conns {
		interrupt(c)
	}
	g.mu.Unlock()
	g.wg.Wait()
}
