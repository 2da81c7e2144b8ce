package socket

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Accept hands each connection of a listener to admit, until the listener is closed. address is what the log calls it.
func Accept(l net.Listener, address string, log *slog.Logger, admit func(net.Conn)) error {
	var seldom Seldom
	for {
		nc, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
			if unlogged, now := seldom.Now(time.Now()); now {
				log.Error("cannot accept a connection: no file descriptors left; raise LimitNOFILE", "address", address, "unlogged", unlogged)
			}
			time.Sleep(50 * time.Millisecond) // accept would fail at once again
		case err != nil:
			return fmt.Errorf("accept on %s: %w", address, err)
		default:
			admit(nc)
		}
	}
}

// Crowd holds the open connections of a server, each of type C. It is safe for concurrent use.
type Crowd[C comparable] struct {
	mu     sync.Mutex
	conns  map[C]struct{} // guarded by mu
	closed bool           // guarded by mu
	wg     sync.WaitGroup // one for each connection

	leaving atomic.Int32 // those that were turned away and may still read why
}

// NewCrowd returns an empty crowd.
func NewCrowd[C comparable]() *Crowd[C] { return &Crowd[C]{conns: make(map[C]struct{})} }

// Admit serves a connection in a goroutine of its own and keeps it until serve returns. It returns false when the crowd is closed.
func (g *Crowd[C]) Admit(c C, serve func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.conns[c] = struct{}{}
	g.wg.Go(func() {
		serve()
		g.mu.Lock()
		delete(g.conns, c)
		g.mu.Unlock()
	})
	return true
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

// How long a client that is turned away may take to read why, how much of what it sends is listened to, and how many of
// them are at a time: the others may miss the reason.
const (
	lastWords = time.Second
	heard     = 64 << 10
	lingering = 256
)

// TurnAway closes a connection on which the reason was written. It lets the peer finish what it is saying: who writes to
// a closed connection gets an error and may never read the reason.
func (g *Crowd[C]) TurnAway(nc net.Conn) {
	half, ok := nc.(interface{ CloseWrite() error })
	if n := g.leaving.Add(1); !ok || n > lingering {
		g.leaving.Add(-1)
		nc.Close()
		return
	}
	go func() {
		defer g.leaving.Add(-1)
		defer nc.Close()
		nc.SetReadDeadline(time.Now().Add(lastWords))
		if half.CloseWrite() == nil {
			_, _ = io.CopyN(io.Discard, nc, heard) // until the peer closes, or its time is up
		}
	}()
}
