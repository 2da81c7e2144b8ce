package locker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// The back-off between two tries of the head of a queue.
const (
	minBackoff = 10 * time.Millisecond
	maxBackoff = 100 * time.Millisecond
)

// queue is who waits for one lock, in order of arrival.
type queue struct {
	waiters []*waiter
}

// waiter is one wait. Its channel holds one wake-up: the lock was released, or it became the head.
type waiter struct {
	wake chan struct{}
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // one is on its way
	}
}

// queued says whether somebody waits for the command's lock.
func (l *Locker) queued(c *store.Command) bool {
	if l.waiting.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queues[nameOf(c)] != nil
}

// enqueue adds a waiter at the end.
func (l *Locker) enqueue(n name) (*waiter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queues[n]
	if q == nil {
		q = new(queue)
		l.queues[n] = q
	}
	if len(q.waiters) >= l.cfg.MaxWaiters {
		return nil, ErrQueueFull
	}
	w := &waiter{wake: make(chan struct{}, 1)}
	q.waiters = append(q.waiters, w)
	l.waiting.Add(1)
	return w, nil
}

// dequeue removes a waiter; if it was the head, the next one is woken.
func (l *Locker) dequeue(n name, w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queues[n]
	at := slices.Index(q.waiters, w)
	q.waiters = slices.Delete(q.waiters, at, at+1)
	l.waiting.Add(-1)
	if len(q.waiters) == 0 {
		delete(l.queues, n)
	} else if at == 0 {
		q.waiters[0].signal()
	}
}

func (l *Locker) isHead(n name, w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queues[n].waiters[0] == w
}

// wake tells the head of a lock's queue that it was released.
func (l *Locker) wake(n name) {
	if l.waiting.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queues[n]; q != nil {
		q.waiters[0].signal()
	}
}

// Wait takes the lock of an OpSessionOpen or OpLockAcquire, and waits for it at most as long as wait
// and MaxWait allow. When the lock is still held then, it returns a Busy result. It returns
// ErrQueueFull with a Busy result, ErrShuttingDown, ErrClosed, or what the arbiter or ctx returned. While nobody can decide, it waits too.
func (c *Client) Wait(ctx context.Context, cmd *store.Command, wait time.Duration) (store.Result, error) {
	began := time.Now()
	if wait > c.l.cfg.MaxWait {
		c.l.cutWait.Do(func() {
			c.l.cfg.Log.Warn("a client wants to wait longer than anybody may: it is told busy before; this is said once",
				"asked", wait.String(), "lock.max_wait", c.l.cfg.MaxWait.String())
		})
		wait = c.l.cfg.MaxWait
	}
	r, err := c.wait(ctx, cmd, wait)
	c.l.cfg.Metrics.waited(time.Since(began), r, err)
	return r, err
}

func (c *Client) wait(ctx context.Context, cmd *store.Command, wait time.Duration) (store.Result, error) {
	l, n := c.l, nameOf(cmd)
	w, err := l.enqueue(n)
	cmd.Queued = err != nil
	if err != nil {
		r, askErr := c.attempt(ctx, cmd)
		if askErr != nil || r.Status != store.Busy {
			return r, askErr
		}
		return r, err
	}
	defer l.dequeue(n, w)

	// Who goes on without the lock wants the data, but only at the end: a try that is not the last may come from another host.
	want := cmd.WantOld
	cmd.WantOld = false
	timeUp := time.NewTimer(wait)
	defer timeUp.Stop()
	retry := time.NewTimer(0)
	defer retry.Stop()
	for backoff := minBackoff; ; {
		select {
		case <-timeUp.C:
			cmd.WantOld = want
			return c.attempt(ctx, cmd)
		case <-c.gone:
			return store.Result{}, ErrClosed
		case <-l.draining:
			return store.Result{}, ErrShuttingDown
		case <-ctx.Done():
			return store.Result{}, ctx.Err()
		case <-w.wake:
		case <-retry.C:
		}
		if !l.isHead(n, w) {
			continue // it is woken when it becomes the head
		}
		r, err := c.attempt(ctx, cmd)
		switch {
		case errors.Is(err, arbiter.ErrNotDecided):
			retry.Reset(backoff)
		case err != nil || r.Status != store.Busy:
			return r, err
		default:
			retry.Reset(min(backoff, leaseLeft(cmd.Now, r.Holder)))
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// leaseLeft returns how long the holder's lease lasts: at its end the lock is free.
func leaseLeft(now int64, h *store.Hold) time.Duration {
	if h.Until == 0 {
		return maxBackoff
	}
	return Milliseconds(max(1, h.Until-now))
}

// Milliseconds converts a number that may be too large for a Duration.
func Milliseconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(n, most)) * time.Millisecond
}
