package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/coatcheck/coatcheck/sidecar/client"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

func newLock() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "lock",
		Short:   "Run a command under a lock",
		Example: "  coatcheck lock run nightly -- /usr/local/bin/nightly",
		Args:    cobra.NoArgs,
		RunE:    help,
	}
	cmd.AddCommand(newLockRun())
	return cmd
}

// hold is a lock that belongs to a connection of its own: when this process dies, the daemon sees the connection close
// and releases the lock.
type hold struct {
	asker
	bucket string
	name   string
	token  string
	shared bool
	lease  time.Duration
	script string // what runs, for those who ask who holds the lock

	client *client.Client
	fence  uint64
	sure   time.Time // the lock was ours a lease from here, at least
}

// newToken returns a token that nobody can guess and nobody has had.
func newToken() string {
	var b [16]byte
	rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// named returns the parameters that every call about the lock has.
func (h *hold) named() wire.Pairs {
	return wire.Pairs{pair("name", h.name), pair("bucket", h.bucket), pair("token", h.token)}
}

// retryAfter is how long to wait when the daemon does not wait, because it does not let anyone wait for so long, or because
// too many wait.
const retryAfter = 100 * time.Millisecond

// acquire connects and takes the lock, waiting for it at most as long as wait. The caller closes the hold.
func (h *hold) acquire(ctx context.Context, wait time.Duration) (err error) {
	if h.client, err = h.dial(ctx); err != nil {
		return err
	}
	for end := time.Now().Add(wait); ; {
		left := max(0, time.Until(end))
		err := h.attempt(ctx, left)
		e, answered := errors.AsType[*wire.Error](err)
		if !answered || e.Code != wire.Busy || left == 0 {
			return h.explain(err, e, answered)
		}
		if err := h.client.Idle(ctx, min(left, retryAfter)); err != nil {
			return unanswered(err)
		}
	}
}

// attempt asks for the lock once.
func (h *hold) attempt(ctx context.Context, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait+h.timeout)
	defer cancel()
	asked := time.Now()
	answer, err := h.client.Call(ctx, "lock.acquire", append(h.named(),
		pair("bound", true), pair("shared", h.shared), pair("lease_ms", h.lease.Milliseconds()),
		pair("wait_ms", wait.Milliseconds()), pair("script", h.script)))
	if err != nil {
		return err
	}
	granted, _ := answer.(map[string]any)
	h.fence, h.sure = uint64(row(granted).number("fence")), asked
	return nil
}

// explain makes a lock that is taken an error that says by whom.
func (h *hold) explain(err error, e *wire.Error, answered bool) error {
	if err == nil || !answered || e.Code != wire.Busy {
		return unanswered(err)
	}
	by := "somebody"
	for _, d := range e.Details {
		if holder, ok := d.Value.(map[string]any); ok && d.Key == "holder" {
			r := row(holder)
			by = fmt.Sprintf("process %d (%s %s) has held it for %s", r.number("pid"),
				shownOrDash(r.text("sapi")), shownOrDash(r.text("script")), duration(r.number("held_ms")))
		}
	}
	return &exitError{exitTaken, fmt.Errorf("lock %s is taken: %s", shown(h.name), by)}
}

// maxCheck is the longest time between two looks whether the lock is still held.
const maxCheck = time.Second

// errNotHeld is returned when the lock is not ours any more.
var errNotHeld = errors.New("it was released by force, or its lease ran out")

// keep renews the lock, at a third of its lease and at least every second, until ctx ends or the lock is lost. The
// daemon renews it by itself too while the connection lives, but lock.max_hold ends that.
func (h *hold) keep(ctx context.Context) error {
	for ctx.Err() == nil {
		err := h.client.Idle(ctx, min(h.lease/3, maxCheck))
		if err == nil && ctx.Err() == nil {
			err = h.renew(ctx)
		}
		if _, answered := errors.AsType[*wire.Error](err); err != nil && !answered && !errors.Is(err, errNotHeld) {
			err = h.resume(ctx, err)
		}
		lost := errors.Is(err, errNotHeld) || err != nil && time.Since(h.sure) >= h.lease
		if lost && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// renew lengthens the lease. It waits for the answer until the lease ends, when the lock may be another's already.
func (h *hold) renew(ctx context.Context) error {
	asked := time.Now()
	ctx, cancel := context.WithDeadline(ctx, h.sure.Add(h.lease))
	defer cancel()
	_, err := h.client.Call(ctx, "lock.renew", append(h.named(), pair("lease_ms", h.lease.Milliseconds())))
	if e, ok := errors.AsType[*wire.Error](err); ok && e.Code == wire.Refused {
		return errNotHeld
	}
	if err == nil {
		h.sure = asked
	}
	return err
}

// resume takes the lock up again over a new connection, when the daemon was started anew and has kept it. It tries until the
// lease ends, and then returns why it had to.
func (h *hold) resume(ctx context.Context, why error) error {
	h.client.Close()
	ctx, cancel := context.WithDeadline(ctx, h.sure.Add(h.lease))
	defer cancel()
	retry := time.NewTicker(retryAfter)
	defer retry.Stop()
	for {
		if err := h.reattach(ctx); err == nil || errors.Is(err, errNotHeld) {
			return err
		}
		select {
		case <-ctx.Done():
			return why
		case <-retry.C:
		}
	}
}

// reattach asks for the lock with the token that holds it. Another fence says that the lock was free in between.
func (h *hold) reattach(ctx context.Context) error {
	c, err := h.dial(ctx)
	if err != nil {
		return err
	}
	h.client.Close()
	h.client = c
	fence := h.fence
	err = h.attempt(ctx, 0)
	if e, ok := errors.AsType[*wire.Error](err); ok && e.Code == wire.Busy || err == nil && h.fence != fence {
		return errNotHeld
	}
	return err
}

// release gives the lock back and says whether it was still held. When the daemon does not answer, closing the
// connection releases the lock as well.
func (h *hold) release(ctx context.Context) (held bool) {
	answer, err := h.call(ctx, h.client, "lock.release", h.named())
	held, _ = answer.(bool)
	return held || err != nil
}

// close closes the connection, if there is one.
func (h *hold) close() {
	if h.client != nil {
		h.client.Close()
	}
}
