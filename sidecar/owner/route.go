package owner

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/cluster"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// persist asks the command's one owner, by the view of the moment, until it answers or the patience is over.
func (a *Arbiter) persist(ctx context.Context, c *store.Command) (store.Result, error) {
	var p patience
	var unknown error // that of a try that may have been served
	for {
		changed := a.host.viewChanged() // before the view is looked at, to miss none
		v := a.host.view()
		id, err := v.decider(c)
		if err != nil {
			return store.Result{}, first(unknown, err)
		}
		r, err := a.try(ctx, v, id, c)
		switch {
		case err == nil && (unknown == nil || settles(c, &r)):
			return r, nil
		case err == nil:
			return store.Result{}, unknown
		case errors.Is(err, arbiter.ErrUnreachable):
			if unknown = err; !repeatable(c) {
				return store.Result{}, err
			}
		case !errors.Is(err, arbiter.ErrNotDecided):
			return store.Result{}, first(unknown, err)
		}
		if !p.wait(ctx, a.cfg.Patience, changed) {
			return store.Result{}, first(unknown, err)
		}
		a.m.again.Inc()
	}
}

// first returns the first error that is one.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// repeatable says whether a command that may have been served may be sent again: it changes nothing, or its token makes the
// second time the same as the first.
func repeatable(c *store.Command) bool {
	switch c.Op {
	case store.OpSessionOpen, store.OpSessionRelease, store.OpSessionLapse, store.OpSessionRenew,
		store.OpLockAcquire, store.OpLockRenew, store.OpLockRelease:
		return true
	case store.OpSessionCommit:
		return len(c.Token) > 0
	case store.OpBatch:
		for i := range c.Batch {
			if c.Batch[i].Op.Changes() {
				return false
			}
		}
		return true
	}
	return !c.Op.Changes()
}

// settles says whether an answer holds although an earlier try may have been served, or may yet be: when what was asked for is done now. A
// lock that is Busy could be granted to the earlier try all the same; a write that is refused may be the reason itself.
func settles(c *store.Command, r *store.Result) bool {
	switch c.Op {
	case store.OpSessionOpen:
		return len(c.Token) == 0 || r.Locked
	case store.OpLockAcquire:
		return r.Status == store.OK
	case store.OpSessionCommit:
		return r.Status == store.OK
	case store.OpSessionRelease, store.OpLockRelease:
		return r.Done
	}
	return true
}

// patience is how long something was tried.
type patience struct {
	until time.Time
	pause time.Duration
}

// The pauses between two tries when the view does not change meanwhile.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = 160 * time.Millisecond
)

// wait returns true when the next try may be made: the view changed, or a pause is over. It returns false when ctx has ended, or when
// limit has passed since the first call.
func (p *patience) wait(ctx context.Context, limit time.Duration, changed <-chan struct{}) bool {
	now := time.Now()
	if p.until.IsZero() {
		p.until, p.pause = now.Add(limit), firstPause
	}
	if !now.Before(p.until) || ctx.Err() != nil {
		return false
	}
	t := time.NewTimer(min(p.pause, p.until.Sub(now)))
	defer t.Stop()
	p.pause = min(2*p.pause, longestPause)
	select {
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// try asks the owner by one view, once. An error that wraps arbiter.ErrNotDecided: nothing was done; arbiter.ErrUnreachable: who knows.
func (a *Arbiter) try(ctx context.Context, v *view, owner string, c *store.Command) (store.Result, error) {
	switch owner {
	case "":
		return store.Result{}, fmt.Errorf("view %s has no owner for the key: %w", v.id, arbiter.ErrNotDecided)
	case a.host.id():
		r, err := a.decide(ctx, v.id, owner, c)
		if errors.Is(err, arbiter.ErrNotDecided) {
			err = fmt.Errorf("%w: %w", arbiter.ErrNotDecided, err)
		}
		return r, err
	}
	r, err := a.ask(ctx, v, owner, c)
	switch {
	case err == nil:
		a.m.asked.WithLabelValues(outcomeDecided).Inc()
	case errors.Is(err, arbiter.ErrNotDecided), errors.Is(err, arbiter.ErrCannotKeep):
		a.m.asked.WithLabelValues(outcomeNotDecided).Inc()
	default:
		a.m.asked.WithLabelValues(outcomeUnknown).Inc()
	}
	return r, err
}

// decide decides a command here, for a host, and wakes those who wait elsewhere for what it changed.
func (a *Arbiter) decide(ctx context.Context, id ViewID, asker string, c *store.Command) (store.Result, error) {
	var r store.Result
	var err error
	if c.SingleKey() {
		r, err = a.host.decide(ctx, id, c, store.ShardOfKey(c.Key))
	} else {
		r, err = a.host.decide(ctx, id, c, slices.Collect(c.Shards().All())...)
	}
	if err == nil {
		a.noteDecided(asker, c, &r)
	}
	return r, err
}

// ask asks another host.
func (a *Arbiter) ask(ctx context.Context, v *view, owner string, c *store.Command) (store.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Answer)
	defer cancel()
	body := store.AppendCommand(v.id.append(make([]byte, 0, 256+len(c.Value))), c)
	answer, err := a.host.call(ctx, owner, false, kindCommand, body)
	switch {
	case errors.Is(err, cluster.ErrTooLarge): // as it will be the next time
		return store.Result{}, fmt.Errorf("owner %s: %w", owner, err)
	case errors.Is(err, ErrNotSent):
		return store.Result{}, fmt.Errorf("owner %s: %w: %w", owner, arbiter.ErrNotDecided, err)
	case err != nil:
		return store.Result{}, fmt.Errorf("owner %s: %w: %w", owner, arbiter.ErrUnreachable, err)
	}
	r, err := readAnswer(answer, c)
	if err != nil {
		return store.Result{}, fmt.Errorf("owner %s: %w", owner, err)
	}
	return r, nil
}

// The first byte of an answer to a command.
const (
	answerDecided    byte = iota + 1 // the time and the result
	answerNotDecided                 // why, in words: nothing was done
	answerUnknown                    // why, in words: it may have been done
	answerCannotKeep                 // why, in words: nothing was done
	answerNotKept                    // why, in words: it was done, and may not last
)

// serveCommand answers a host that takes this one for the owner.
func (a *Arbiter) serveCommand(ctx context.Context, from string, body []byte) ([]byte, error) {
	r := &reader{b: body}
	id := r.viewID()
	if r.err != nil {
		return nil, r.err
	}
	c, err := store.DecodeCommand(r.b)
	if err != nil {
		return nil, err
	}
	if c.Op == store.OpSweep {
		return nil, fmt.Errorf("%w: every host sweeps for itself", errMessage)
	}
	res, err := a.decide(ctx, id, from, c)
	switch {
	case err == nil:
		b := binary.AppendVarint([]byte{answerDecided}, c.Now)
		return store.AppendResult(b, &res), nil
	case errors.Is(err, arbiter.ErrNotDecided):
		return append([]byte{answerNotDecided}, err.Error()...), nil
	case errors.Is(err, arbiter.ErrCannotKeep):
		return append([]byte{answerCannotKeep}, because(err, arbiter.ErrCannotKeep)...), nil
	case errors.Is(err, arbiter.ErrNotKept):
		return append([]byte{answerNotKept}, because(err, arbiter.ErrNotKept)...), nil
	}
	return append([]byte{answerUnknown}, err.Error()...), nil
}

// because returns what err says beside what it is.
func because(err, what error) string { return strings.TrimPrefix(err.Error(), what.Error()+": ") }

// readAnswer reads what serveCommand wrote, and sets the command's time to that of the decision.
func readAnswer(b []byte, c *store.Command) (store.Result, error) {
	r := &reader{b: b}
	switch r.byte() {
	case answerDecided:
		now := r.int()
		if r.err != nil {
			break
		}
		res, err := store.DecodeResult(r.b)
		if err != nil {
			return store.Result{}, fmt.Errorf("%w: %w", arbiter.ErrUnreachable, err)
		}
		c.Now = now
		return res, nil
	case answerNotDecided:
		return store.Result{}, fmt.Errorf("%w: %s", arbiter.ErrNotDecided, r.b)
	case answerUnknown:
		return store.Result{}, fmt.Errorf("%w: %s", arbiter.ErrUnreachable, r.b)
	case answerCannotKeep:
		return store.Result{}, fmt.Errorf("%w: %s", arbiter.ErrCannotKeep, r.b)
	case answerNotKept:
		return store.Result{}, fmt.Errorf("%w: %s", arbiter.ErrNotKept, r.b)
	default:
		r.fail("it is no answer to a command")
	}
	return store.Result{}, fmt.Errorf("%w: %w", arbiter.ErrUnreachable, r.err)
}
