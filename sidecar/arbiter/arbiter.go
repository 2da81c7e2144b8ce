// Package arbiter answers the one question "who decides this command?".
//
// # Guarantees
//
// An Arbiter that returns a nil error has had the command decided, once, where its key is owned. An error that wraps
// [ErrNotDecided] or [ErrCannotKeep] means that nothing was done. One that wraps [ErrUnreachable] means that the outcome is unknown: a grant
// may or may not have landed, and the same token may be retried and released safely. [ErrNotKept] is one of those.
package arbiter

import (
	"context"
	"errors"
	"fmt"
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
	// ErrCannotKeep is returned when nothing was done, for the owner of the key could not keep what would be changed.
	ErrCannotKeep = errors.New("nothing was changed")
	// ErrNotKept is returned when the owner of the key made the change but could not keep it: it counts while that daemon
	// runs, and may be gone when it starts again. So it is an ErrUnreachable too.
	ErrNotKept error = notKept{}
)

type notKept struct{}

func (notKept) Error() string {
	return "the change was made, but may not outlive the daemon: the outcome is unknown"
}

func (notKept) Is(target error) bool { return target == ErrUnreachable }

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
	// Sync returns when all changes made before survive a loss of power, whatever Commit takes for safe.
	Sync() error
}

// Ready returns nil, or an error that wraps ErrCannotKeep and says why k can keep nothing now. A nil k keeps nothing, and is ready.
func Ready(k Keeper) error {
	if k == nil {
		return nil
	}
	if err := k.Ready(); err != nil {
		return fmt.Errorf("%w: %w", ErrCannotKeep, err)
	}
	return nil
}

// Commit returns when k keeps all changes made before, or an error that wraps ErrNotKept. A nil k keeps nothing.
func Commit(k Keeper) error {
	if k == nil {
		return nil
	}
	if err := k.Commit(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotKept, err)
	}
	return nil
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

// Do applies the command and returns when its change is kept. It returns ErrCannotKeep when nothing was done, and ErrNotKept, with the
// result, when the change was made but may not last.
func (l *Local) Do(_ context.Context, c *store.Command) (store.Result, error) {
	if c.Op.Changes() {
		if err := Ready(l.keeper); err != nil {
			return store.Result{}, err
		}
	}
	c.Now = l.now()
	r := l.store.Apply(c)
	if r.Changed {
		return r, Commit(l.keeper)
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
