package locker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/socket"
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
	LookAgain  time.Duration // how often a watcher looks for a change that nobody told of; 0: all are made on this node
	Log        *slog.Logger
	Metrics    *Metrics
}

// Locker holds the queues of this node. It is safe for concurrent use.
type Locker struct {
	arb arbiter.Arbiter
	cfg Config

	draining chan struct{}
	drain    sync.Once
	cutWait  sync.Once       // it is logged that a wait was cut short
	leftover socket.SeldomOf // how often it is logged that a client left a lock behind, by tenant

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
	return &Client{l: l, held: make(map[heldName]*held), gone: make(chan struct{}), looks: make(chan struct{}, 1)}
}

// Wake tells those who wait here for the session's or the named lock that it was released elsewhere, and those who watch the key
// of that name that it changed; an empty key stands for all keys of the space. They look for themselves: a wake-up without a reason does
// no harm.
func (l *Locker) Wake(space store.Space, session bool, key string) {
	if key == "" {
		l.flushed(space)
		return
	}
	n := name{space: space, session: session, key: key}
	l.wake(n)
	l.changed(n)
}

// nameOf returns the name of the lock or key that a command is about.
func nameOf(c *store.Command) name {
	return name{space: c.Space, session: c.Op.OfSession(), key: string(c.Key)}
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
	if l.waiting.Load() > 0 && c.Frees(&r) { // names are not made for nobody
		l.wake(nameOf(c))
	}
	if l.watching.Load() > 0 && c.Op.ChangesString() {
		l.changed(nameOf(c))
	}
	switch c.Op {
	case store.OpRename:
		to := *c
		to.Key = c.NewKey
		l.changed(nameOf(&to))
	case store.OpBatch:
		for i := range r.Batch {
			l.tell(&c.Batch[i], r.Batch[i])
		}
	case store.OpFlush:
		l.flushed(c.Space)
	}
}
