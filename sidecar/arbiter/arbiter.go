// Package arbiter answers the one question "who decides this command?".
//
// # Guarantees
//
// An Arbiter that returns a nil error has had the command decided, once, where its key is owned. An error that wraps
// [ErrNotDecided] means that nothing was done. One that wraps [ErrUnreachable] means that the outcome is unknown: a grant
// may or may not have landed, and the same token may be retried and released safely.
package arbiter

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

var (
	// ErrUnreachable is returned when the owner of the key did not answer.
	ErrUnreachable = errors.New("the owner of the key did not answer: the outcome is unknown")
	// ErrNotDecided is returned when nothing was done, for nobody can decide the command now. It may be tried again.
	ErrNotDecided = errors.New("nobody can decide the command now: nothing was done")
	// ErrSeveralOwners is returned for a command that must be one step when its keys have different owners.
	ErrSeveralOwners = errors.New("the keys have different owners, and the command must be one step: nothing was done")
)

// Arbiter decides commands. Do sets the command's time; it does not keep the command. It never waits for a lock.
type Arbiter interface {
	Do(ctx context.Context, c *store.Command) (store.Result, error)
}

// Clock returns milliseconds since 1970 and never goes back.
type Clock func() int64

// BootClock counts milliseconds since 1970 from the wall clock's time at its making, also while the machine is suspended, and
// does not follow later changes of the wall clock (CLOCK_BOOTTIME). After a resume it is behind until the next
// Adjust: leases last longer, never shorter.
//
// Reading CLOCK_BOOTTIME is a system call, the monotonic clock is not: so it counts by the latter, which stops in suspend, and
// Adjust adds what was missed.
type BootClock struct {
	wall  int64     // at the start, ms
	start time.Time // by the monotonic clock
	boot  int64     // CLOCK_BOOTTIME at the start, ms

	missed atomic.Int64 // ms spent in suspend since the start
}

// NewBootClock returns a clock that shows now.
func NewBootClock(now time.Time) *BootClock {
	return &BootClock{wall: now.UnixMilli(), start: now, boot: bootTime()}
}

// Now returns the time. It never goes back.
func (b *BootClock) Now() int64 { return b.wall + time.Since(b.start).Milliseconds() + b.missed.Load() }

// Adjust takes the time spent in suspend into account. It is to be called twice a second or so, by one goroutine.
func (b *BootClock) Adjust() {
	// The two clocks are not read in the same instant: less than that is no suspend.
	const noise = 50
	missed := bootTime() - b.boot - time.Since(b.start).Milliseconds()
	if missed > b.missed.Load()+noise {
		b.missed.Store(missed)
	}
}

func bootTime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("arbiter: the kernel has no CLOCK_BOOTTIME: " + err.Error())
	}
	return t.Nano() / 1e6
}

// Keeper makes what a store changes durable.
type Keeper interface {
	// Ready returns why changes must be refused, or nil.
	Ready() error
	// Commit returns when all changes made before are as safe as they are to be.
	Commit() error
}

// Local decides every command in a store of its own process.
type Local struct {
	store  *store.Store
	now    Clock
	keeper Keeper // nil: memory only
}

// NewLocal returns an arbiter for s, whose changes k keeps; a nil k means memory only.
func NewLocal(s *store.Store, now Clock, k Keeper) *Local {
	return &Local{store: s, now: now, keeper: k}
}

// Do applies the command and returns when its change is kept. It returns the keeper's errors: that of Ready when
// nothing was done, that of Commit when the change was made but may not last.
func (l *Local) Do(_ context.Context, c *store.Command) (store.Result, error) {
	if l.keeper != nil && c.Op.Changes() {
		if err := l.keeper.Ready(); err != nil {
			return store.Result{}, err
		}
	}
	c.Now = l.now()
	r := l.store.Apply(c)
	if l.keeper != nil && r.Changed {
		return r, l.keeper.Commit()
	}
	return r, nil
}

// Sweep drops what has expired, shard after shard, at most limit entries in each, and returns how many it dropped.
func Sweep(ctx context.Context, a Arbiter, limit int) (int64, error) {
	var dropped int64
	for shard := range uint64(store.Shards) {
		r, err := a.Do(ctx, &store.Command{Op: store.OpSweep, Cursor: shard, Limit: limit})
		if err != nil {
			return dropped, err
		}
		dropped += r.N
	}
	return dropped, nil
}
