package locker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

var (
	// ErrQueueFull is returned when MaxWaiters wait for the lock already.
	ErrQueueFull = errors.New("too many waiters")
	// ErrShuttingDown is returned to those who wait, or ask for a lock, when the daemon stops.
	ErrShuttingDown = errors.New("the daemon is shutting down")
	// ErrClosed is returned when the client closed while it waited.
	ErrClosed = errors.New("the client has gone")
)

// Config is what a Locker needs to know.
type Config struct {
	Lease      time.Duration // of bound locks, when the client names none
	MaxHold    time.Duration // longest time a bound lock is renewed; 0: never renewed
	MaxWait    time.Duration // longest wait for a lock
	MaxWaiters int           // in one lock's queue
	Log        *slog.Logger
	Metrics    *Metrics
}

// Locker holds the queues of this node. It is safe for concurrent use.
type Locker struct {
	arb arbiter.Arbiter
	cfg Config

	draining chan struct{}
	drain    sync.Once

	held     atomic.Int64 // bound locks of all clients
	waiting  atomic.Int64 // waiters in all queues
	watching atomic.Int64 // watchers in watches

	mu      sync.Mutex
	queues  map[name]*queue   // guarded by mu; a queue without waiters has no entry
	watches map[name]*watched // guarded by mu
}

// name is a lock or a key in its keyspace.
type name struct {
	space   store.Space
	session bool
	key     string
}

// New returns a Locker that asks arb.
func New(arb arbiter.Arbiter, cfg Config) *Locker {
	return &Locker{
		arb:      arb,
		cfg:      cfg,
		draining: make(chan struct{}),
		queues:   make(map[name]*queue),
		watches:  make(map[name]*watched),
	}
}

// Drain tells everyone who waits, and from now on everyone who asks for a lock, that the daemon is
// shutting down. What is held stays held and may be committed, renewed and released.
func (l *Locker) Drain() { l.drain.Do(func() { close(l.draining) }) }

func (l *Locker) isDraining() bool {
	select {
	case <-l.draining:
		return true
	default:
		return false
	}
}

// Waiting returns how many wait for locks.
func (l *Locker) Waiting() int { return int(l.waiting.Load()) }

// Held returns how many bound locks the clients of this node hold.
func (l *Locker) Held() int { return int(l.held.Load()) }

// Waiters returns how many wait for one lock.
func (l *Locker) Waiters(c *store.Command) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queues[nameOf(c)]; q != nil {
		return len(q.waiters)
	}
	return 0
}

// NewClient returns a client. The caller closes it.
func (l *Locker) NewClient() *Client {
	return &Client{l: l, held: make(map[heldName]*held), gone: make(chan struct{})}
}

// nameOf returns the name of the lock or key that a command is about.
func nameOf(c *store.Command) name {
	return name{space: c.Space, session: c.Op <= store.OpSessionForce, key: string(c.Key)}
}

// do has the command decided and tells those who wait for what it changed.
func (l *Locker) do(ctx context.Context, c *store.Command) (store.Result, error) {
	r, err := l.arb.Do(ctx, c)
	if err == nil {
		l.tell(c, r)
	}
	return r, err
}

// tell wakes those who wait for what a command changed.
func (l *Locker) tell(c *store.Command, r store.Result) {
	switch c.Op {
	case store.OpSessionCommit, store.OpSessionDestroy:
		if r.Released {
			l.wake(c)
		}
	case store.OpSessionRelease, store.OpSessionLapse, store.OpSessionForce, store.OpLockRelease, store.OpLockForce:
		if r.Done {
			l.wake(c)
		}
	case store.OpLockAcquire:
		if c.Shared && r.Status == store.OK { // others may share it now
			l.wake(c)
		}
	case store.OpSet, store.OpDel, store.OpGetDel, store.OpIncr, store.OpIncrFloat, store.OpAppend, store.OpExpire:
		l.changed(c)
	case store.OpRename:
		l.changed(c)
		to := *c
		to.Key = c.NewKey
		l.changed(&to)
	case store.OpBatch:
		for i := range r.Batch {
			l.tell(&c.Batch[i], r.Batch[i])
		}
	case store.OpFlush:
		l.flushed(c)
	}
}
