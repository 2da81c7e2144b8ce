package locker

import (
	"context"
	"errors"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// watched is a key that somebody watches. A change closes its channel.
type watched struct {
	watchers int
	change   chan struct{}
}

// Watch waits until the version of the key of an OpVersion command is not version, at most until
// timeout, and returns the result and true; or false when time is up. It returns ErrClosed or ErrShuttingDown, or
// what the arbiter or ctx returned.
func (c *Client) Watch(ctx context.Context, cmd *store.Command, version uint64, timeout time.Duration) (store.Result, bool, error) {
	n := nameOf(cmd)
	timeUp := time.NewTimer(timeout)
	defer timeUp.Stop()
	for {
		change := c.l.watch(n) // before the look, so that no change falls between
		r, err := c.l.arb.Do(ctx, cmd)
		if err != nil || r.Version != version {
			c.l.unwatch(n, change)
			return r, true, err
		}
		err = c.pause(ctx, change, timeUp, r.N)
		c.l.unwatch(n, change)
		if err == errTimeUp {
			return store.Result{}, false, nil
		}
		if err != nil {
			return store.Result{}, false, err
		}
	}
}

// errTimeUp ends a pause that nothing else ended.
var errTimeUp = errors.New("time is up")

// pause waits for a change, for the value to expire in left milliseconds (-1: never), or until it is time to look again.
func (c *Client) pause(ctx context.Context, change <-chan struct{}, timeUp *time.Timer, left int64) error {
	look := c.l.cfg.LookAgain
	if left >= 0 && (look == 0 || Milliseconds(left) < look) {
		look = max(1, Milliseconds(left))
	}
	var again <-chan time.Time
	if look > 0 {
		t := time.NewTimer(look)
		defer t.Stop()
		again = t.C
	}
	select {
	case <-change:
	case <-again:
	case <-timeUp.C:
		return errTimeUp
	case <-c.gone:
		return ErrClosed
	case <-c.l.draining:
		return ErrShuttingDown
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// watch returns a channel that is closed at the key's next change. The caller calls unwatch.
func (l *Locker) watch(n name) <-chan struct{} {
	l.watching.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.watches[n]
	if w == nil {
		w = &watched{change: make(chan struct{})}
		l.watches[n] = w
	}
	w.watchers++
	return w.change
}

func (l *Locker) unwatch(n name, change <-chan struct{}) {
	l.watching.Add(-1)
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.watches[n]
	if w == nil || w.change != change {
		return // it changed, and took its entry along
	}
	if w.watchers--; w.watchers == 0 {
		delete(l.watches, n)
	}
}

// changed wakes those who watch a key.
func (l *Locker) changed(n name) {
	if l.watching.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.watches[n]; w != nil {
		close(w.change)
		delete(l.watches, n)
	}
}

// flushed wakes those who watch a key of a space.
func (l *Locker) flushed(space store.Space) {
	if l.watching.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for n, w := range l.watches {
		if n.space == space {
			close(w.change)
			delete(l.watches, n)
		}
	}
}
