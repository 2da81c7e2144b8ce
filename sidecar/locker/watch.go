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
// timeout, and returns the result, and what the caller calls when it needs the result no more; or nil when time is up. It
// returns ErrClosed or ErrShuttingDown, or what the arbiter or ctx returned.
//
// Until it is called, the client's other watches do not look: one change may end all of them, and their results may be
// large.
func (c *Client) Watch(ctx context.Context, cmd *store.Command, version uint64, timeout time.Duration) (r store.Result, done func(), err error) {
	n := nameOf(cmd)
	timeUp := time.NewTimer(timeout)
	defer timeUp.Stop()
	for {
		change := c.l.watch(n) // before the look, so that no change falls between
		r, err := c.look(ctx, cmd, version, timeUp)
		if err == nil && r.Version == version {
			err = c.pause(ctx, change, timeUp, r.N)
		}
		c.l.unwatch(n, change)
		switch {
		case err == errTimeUp:
			return store.Result{}, nil, nil
		case err != nil:
			return store.Result{}, nil, err
		case r.Version != version:
			return r, c.looked, nil
		}
	}
}

// look looks when it is the watch's turn, which lasts on when it sees another version.
func (c *Client) look(ctx context.Context, cmd *store.Command, version uint64, timeUp *time.Timer) (store.Result, error) {
	select {
	case c.looks <- struct{}{}:
	case <-timeUp.C:
		return store.Result{}, errTimeUp
	case <-c.gone:
		return store.Result{}, ErrClosed
	case <-c.l.draining:
		return store.Result{}, ErrShuttingDown
	case <-ctx.Done():
		return store.Result{}, ctx.Err()
	}
	r, err := c.l.arb.Do(ctx, cmd)
	if err != nil || r.Version == version {
		c.looked()
	}
	return r, err
}

// looked ends a turn.
func (c *Client) looked() { <-c.looks }

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
