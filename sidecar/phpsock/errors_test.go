package phpsock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// TestPromise5WhatWasNotDecidedIsNoUnknownOutcome, and the other way round: each has a code of its own, whoever wraps it.
func TestPromise5WhatWasNotDecidedIsNoUnknownOutcome(t *testing.T) {
	for err, want := range map[error]wire.Code{
		arbiter.ErrNotDecided:      wire.Unavailable,
		arbiter.ErrCannotKeep:      wire.Unavailable,
		arbiter.ErrNotKept:         wire.Unreachable,
		arbiter.ErrUnreachable:     wire.Unreachable,
		arbiter.ErrSeveralOwners:   wire.Refused,
		fmt.Errorf("a disk melts"): wire.Internal,
	} {
		if got := asError(fmt.Errorf("owner b: %w", err)); got.Code != want {
			t.Errorf("%v is %s, want %s", err, got.Code, want)
		}
	}
}

// disk is a keeper whose writes fail on demand: from then on it is not ready either, as a journal is not.
type disk struct{ full, broken atomic.Bool }

var errFull = errors.New("no space left on device")

func (d *disk) Ready() error {
	if d.broken.Load() {
		return errFull
	}
	return nil
}

func (d *disk) Sync() error { return d.Commit() }

func (d *disk) Commit() error {
	d.broken.Store(d.full.Load())
	return d.Ready()
}

func (d *disk) fill() { d.full.Store(true) }

func (d *disk) makeRoom() {
	d.full.Store(false)
	d.broken.Store(false)
}

// TestPromise5AChangeThatIsNotKeptIsNotRefused: what was made is an unknown outcome, what was not is none.
func TestPromise5AChangeThatIsNotKeptIsNotRefused(t *testing.T) {
	d := &disk{}
	s := store.New(store.Limits{})
	s.OnChange(func([]byte) {})
	h := open(t, nil).over(arbiter.NewLocal(s, func() int64 { return time.Now().UnixMilli() }, d))
	v := h.visit()
	d.fill()
	v.fails(wire.Unreachable, "not_kept", "kv.incr_by", "key", "n", "delta", 1)
	v.fails(wire.Unavailable, "", "kv.incr_by", "key", "n", "delta", 1)
	if n := v.ask("kv.get", "key", "n"); string(n.([]byte)) != "1" {
		t.Errorf("n is %s", n)
	}
	d.makeRoom()
	d.fill()
	v.fails(wire.Unreachable, "not_kept", "session.open", "id", "sid", "token", "t", "lease_ms", 30_000)
	v.Close() // its release cannot be kept, and is tried again
	d.makeRoom()
	h.visit().ask("session.open", "id", "sid", "token", "u", "lease_ms", 30_000, "wait_ms", 20_000)
}

// hesitant is an arbiter that decides only after a while, or whose answers are lost.
type hesitant struct {
	arbiter.Arbiter
	undecided atomic.Int32 // so many commands more are not decided
	lost      atomic.Bool
}

func (h *hesitant) Do(ctx context.Context, c *store.Command) (store.Result, error) {
	if h.undecided.Add(-1) >= 0 {
		return store.Result{}, arbiter.ErrNotDecided
	}
	r, err := h.Arbiter.Do(ctx, c)
	if h.lost.Load() {
		return store.Result{}, arbiter.ErrUnreachable
	}
	return r, err
}

// over is a server like h over another arbiter.
func (h *house) over(a arbiter.Arbiter) *house {
	h.t.Helper()
	cfg := h.s.cfg
	cfg.Path += "3"
	l := locker.New(a, locker.Config{
		Lease: 30 * time.Second, MaxHold: time.Minute, MaxWait: time.Minute, MaxWaiters: 64,
		Log: cfg.Log, Metrics: locker.NewMetrics(prometheus.NewRegistry()),
	})
	s, err := Listen(cfg, l)
	if err != nil {
		h.t.Fatal(err)
	}
	s.Ready()
	other := &house{t: h.t, s: s, l: l, path: cfg.Path, log: h.log}
	other.run()
	return other
}

// TestALockWhoseOwnerIsChangingIsWaitedFor, if the client would wait and asks for a lock at all.
func TestALockWhoseOwnerIsChangingIsWaitedFor(t *testing.T) {
	a := &hesitant{Arbiter: arbiter.NewLocal(store.New(store.Limits{}), func() int64 { return time.Now().UnixMilli() }, nil)}
	h := open(t, nil).over(a)
	v := h.visit()
	a.undecided.Store(3)
	v.ask("session.open", "id", "sid", "token", "t", "lease_ms", 30_000, "wait_ms", 20_000)
	if n := h.l.Held(); n != 1 {
		t.Errorf("%d locks are held", n)
	}
	a.undecided.Store(1)
	v.fails(wire.Unavailable, "", "session.open", "id", "sid", "wait_ms", 20_000) // a read
	a.undecided.Store(1)
	v.fails(wire.Unavailable, "", "lock.acquire", "name", "l", "token", "t")
	if n := h.l.Held(); n != 1 {
		t.Errorf("then, %d locks are held", n)
	}
}

// TestAGrantThatNobodyHeardOfIsReleasedByItsToken, or with its connection.
func TestAGrantThatNobodyHeardOfIsReleasedByItsToken(t *testing.T) {
	a := &hesitant{Arbiter: arbiter.NewLocal(store.New(store.Limits{}), func() int64 { return time.Now().UnixMilli() }, nil)}
	h := open(t, nil).over(a)
	v, other := h.visit(), h.visit()
	lose := func(token string) {
		a.lost.Store(true)
		defer a.lost.Store(false)
		v.fails(wire.Unreachable, "", "session.open", "id", "sid", "token", token, "lease_ms", 30_000)
	}
	lose("t")
	other.fails(wire.Busy, "wait_over", "session.open", "id", "sid", "token", "u", "lease_ms", 30_000)
	if released := v.ask("session.release", "id", "sid", "token", "t"); released != true {
		t.Errorf("the release answers %v", released)
	}
	lose("t2")
	v.Close()
	other.ask("session.open", "id", "sid", "token", "u", "lease_ms", 30_000, "wait_ms", 20_000)
}
