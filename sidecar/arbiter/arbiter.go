// Package arbiter answers the one question "who decides this command?".
//
// # Guarantees
//
// An Arbiter that returns a nil error has had the command decided, once, where its key is owned. An error that wraps
// [ErrUnreachable] means that the outcome is unknown: a grant may or may not have landed, and the
// same token may be retried and released safely.
package arbiter

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// ErrUnreachable is returned when the owner of the key did not answer.
var ErrUnreachable = errors.New("the owner of the key did not answer: the outcome is unknown")

// Arbiter decides commands. Do sets the command's time; it does not keep the command. It never waits for a lock.
type Arbiter interface {
	Do(ctx context.Context, c *store.Command) (store.Result, error)
}

// Clock returns milliseconds since 1970 and never goes back.
type Clock func() int64

// BootClock returns a clock that counts on from wall, the time now in milliseconds, also while the machine is suspended, and
// that does not follow later changes of the wall clock (CLOCK_BOOTTIME).
func BootClock(wall int64) Clock {
	boot := func() int64 {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
			panic("arbiter: the kernel has no CLOCK_BOOTTIME: " + err.Error())
		}
		return t.Nano() / 1e6
	}
	offset := wall - boot()
	return func() int64 { return boot() + offset }
}

// Local decides every command in a store of its own process.
type Local struct {
	store *store.Store
	now   Clock
}

// NewLocal returns an arbiter for s.
func NewLocal(s *store.Store, now Clock) *Local { return &Local{store: s, now: now} }

// Do applies the command. It never fails.
func (l *Local) Do(_ context.Context, c *store.Command) (store.Result, error) {
	c.Now = l.now()
	return l.store.Apply(c), nil
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
