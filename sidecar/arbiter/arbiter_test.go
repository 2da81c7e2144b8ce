package arbiter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

var space = store.Space{Tenant: "t"}

// keeper is a Keeper that fails when it is told to.
type keeper struct {
	ready, commit error
	commits       int
}

func (k *keeper) Ready() error { return k.ready }

func (k *keeper) Sync() error { return k.Commit() }

func (k *keeper) Commit() error {
	k.commits++
	return k.commit
}

func TestLocalSetsTheTime(t *testing.T) {
	now := int64(1_000_000)
	a := NewLocal(store.New(store.Limits{}), func() int64 { return now }, nil)
	do := func(c store.Command) store.Result {
		c.Space, c.Key, c.Now = space, []byte("k"), 5 // whatever the caller says
		r, err := a.Do(t.Context(), &c)
		if err != nil || c.Now != now {
			t.Fatalf("%v, its time is %d", err, c.Now)
		}
		return r
	}
	do(store.Command{Op: store.OpSet, TTL: 100})
	now += 99
	if r := do(store.Command{Op: store.OpTTL}); r.N != 1 {
		t.Errorf("%d ms are left, want 1", r.N)
	}
	now++
	if r := do(store.Command{Op: store.OpGet}); r.Found {
		t.Error("it outlived its time")
	}
}

func TestAChangeIsKeptBeforeItIsAnswered(t *testing.T) {
	k := &keeper{}
	s := store.New(store.Limits{})
	s.OnChange(func([]byte) {})
	a := NewLocal(s, func() int64 { return 1_000_000 }, k)
	do := func(op store.Op) (store.Result, error) {
		return a.Do(t.Context(), &store.Command{Op: op, Space: space, Key: []byte("k"), Value: []byte("v"), TTL: 1000, Token: []byte("t"), Lease: 1000})
	}
	if _, err := do(store.OpLockAcquire); err != nil || k.commits != 1 {
		t.Errorf("a grant: %v, kept %d times", err, k.commits)
	}
	if _, err := do(store.OpLockInfo); err != nil || k.commits != 1 {
		t.Errorf("a look: %v, kept %d times", err, k.commits)
	}

	broken := errors.New("the disk is full")
	k.commit = broken
	if r, err := do(store.OpLockRenew); !errors.Is(err, broken) || !errors.Is(err, ErrNotKept) || !errors.Is(err, ErrUnreachable) ||
		errors.Is(err, ErrCannotKeep) || r.Status != store.OK {
		t.Errorf("a change that may not last: %+v, %v", r, err)
	}
	k.ready = broken
	if r, err := do(store.OpLockRelease); !errors.Is(err, broken) || !errors.Is(err, ErrCannotKeep) || errors.Is(err, ErrUnreachable) || r.Done {
		t.Errorf("a change while nothing can be kept: %+v, %v", r, err)
	}
	if r, err := do(store.OpLockInfo); err != nil || !r.Found {
		t.Errorf("a look meanwhile: %+v, %v", r, err)
	}
}

func TestSweepVisitsEveryShard(t *testing.T) {
	now := int64(1_000_000)
	a := NewLocal(store.New(store.Limits{}), func() int64 { return now }, nil)
	for i := range 2000 {
		a.Do(t.Context(), &store.Command{Op: store.OpSet, Space: space, Key: fmt.Appendf(nil, "%d", i), TTL: 10})
	}
	now += 10
	if n, err := Sweep(t.Context(), a, 1); err != nil || n != store.Shards {
		t.Errorf("with a limit of 1 it dropped %d, %v; want one of each shard", n, err)
	}
	if n, err := Sweep(t.Context(), a, 1000); err != nil || n != 2000-store.Shards {
		t.Errorf("then it dropped %d, %v", n, err)
	}
}

// away is an Arbiter that fails at a shard.
type away struct{ at uint64 }

func (a away) Do(_ context.Context, c *store.Command) (store.Result, error) {
	if c.Cursor == a.at {
		return store.Result{}, ErrUnreachable
	}
	return store.Result{N: 1}, nil
}

func TestSweepStopsAtAnError(t *testing.T) {
	if n, err := Sweep(t.Context(), away{10}, 5); !errors.Is(err, ErrUnreachable) || n != 10 {
		t.Errorf("%d, %v", n, err)
	}
}

func TestBootClockBeginsNowAndNeverGoesBack(t *testing.T) {
	now := time.Now()
	b := NewBootClock(now)
	if d := b.Now() - now.UnixMilli(); d < 0 || d > 10_000 {
		t.Errorf("it is %d ms off", d)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			last := int64(0)
			for range 20_000 {
				n := b.Now()
				if n < last {
					t.Errorf("after %d came %d", last, n)
					return
				}
				last = n
			}
		})
	}
	for range 1000 { // noise between the two clocks is no suspend
		b.Adjust()
	}
	all.Wait()
	if n := b.missed.Load(); n != 0 {
		t.Errorf("it thinks that the machine was suspended for %d ms", n)
	}
}

func TestBootClockCountsTimeInSuspend(t *testing.T) {
	b := NewBootClock(time.Now())
	before := b.Now()
	b.boot -= 60_000 // CLOCK_BOOTTIME has gone a minute further than the monotonic clock
	b.Adjust()
	if d := b.Now() - before; d < 60_000 || d > 70_000 {
		t.Errorf("after a minute in suspend it went on by %d ms", d)
	}
	b.boot += 60_000 // whatever the clocks do, it never goes back
	last := b.Now()
	b.Adjust()
	if n := b.Now(); n < last {
		t.Errorf("it went back from %d to %d", last, n)
	}
}

func TestBootClockFollowsTheMonotonicClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBootClock(time.Now())
		before := b.Now()
		time.Sleep(1500 * time.Millisecond) // of the bubble's time
		if d := b.Now() - before; d != 1500 {
			t.Errorf("in 1.5 s it went on by %d ms", d)
		}
	})
}
