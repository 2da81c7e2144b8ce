package owner

import (
	"context"
	"fmt"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// decide decides a command on some shards here. id is the view by which the sender found this host. It sets the command's time. An
// error that wraps arbiter.ErrNotDecided is a *refusal: nothing was done. One that wraps arbiter.ErrUnreachable: it may have been done, and nobody knows
// whether it lasts; arbiter.ErrNotKept is one of those. With arbiter.ErrCannotKeep, nothing was done.
func (s *Seat) decide(ctx context.Context, id ViewID, c *store.Command, shards ...int) (store.Result, error) {
	if c.Op.Changes() {
		if err := arbiter.Ready(s.cfg.Keeper); err != nil {
			return store.Result{}, err
		}
	}
	p, r, err := s.apply(id, c, shards)
	if err != nil || !r.Changed {
		return r, err
	}
	needs := !s.cfg.AckOwner && copied(c.Op)
	var waits [1]copyWait
	tickets := waits[:0]
	if needs {
		for _, shard := range shards {
			tickets = append(tickets, s.copyWait(shard))
		}
	}
	if err := arbiter.Commit(s.cfg.Keeper); err != nil {
		return r, err
	}
	for _, w := range tickets {
		if err := s.waitCopy(ctx, p.view, w); err != nil {
			s.m.unknown.Inc()
			return store.Result{}, fmt.Errorf("%w: %w", arbiter.ErrUnreachable, err)
		}
	}
	return r, nil
}

// copied says whether changes by a command are acknowledged when the runner-up has them: those of sessions and locks.
func copied(op store.Op) bool { return op <= store.OpLockForce }

// apply applies a command while this host may decide on the shards, which it may not once Stop was called. It may find only afterwards that it
// was stopped meanwhile, for longer than its permission lasted.
func (s *Seat) apply(id ViewID, c *store.Command, shards []int) (*permission, store.Result, error) {
	p := s.permit.Load()
	if p.view.id != id {
		return nil, store.Result{}, &refusal{notMine, p.view.id}
	}
	entered := 0
	defer func() {
		for _, shard := range shards[:entered] {
			s.gates[shard].leave()
		}
	}()
	for _, shard := range shards {
		if p.view.owner(shard) != s.self.ID {
			return nil, store.Result{}, &refusal{notMine, p.view.id}
		}
		if !s.gates[shard].enter() {
			return nil, store.Result{}, &refusal{notServing, p.view.id}
		}
		entered++
		if s.served[shard].Load() != id.Epoch {
			return nil, store.Result{}, &refusal{notServing, p.view.id}
		}
	}
	// Behind the gates the view stays: whoever changes it closes them.
	p = s.permit.Load()
	now := s.cfg.Clock()
	if p.view.id != id || now >= p.until || s.life.Err() != nil {
		return nil, store.Result{}, &refusal{notPermitted, p.view.id}
	}
	c.Now = max(now, s.floor.Load())
	if s.cfg.faults.between != nil {
		s.cfg.faults.between()
	}
	r := s.cfg.Store.Apply(c)
	if (s.cfg.Clock() >= p.until || s.life.Err() != nil) && !s.cfg.faults.noCheck {
		s.m.unknown.Inc()
		return nil, store.Result{}, fmt.Errorf("%w: %w", arbiter.ErrUnreachable, errStopped)
	}
	if s.cfg.faults.applied != nil {
		s.cfg.faults.applied(shards[0], id.Epoch)
	}
	if p.alone {
		s.m.alone.Inc()
	}
	return p, r, nil
}

// copyWait is what to wait for until a change of a shard is at its runner-up.
type copyWait struct {
	shard  int
	stream *stream // nil: there is no runner-up
	ticket uint64
	made   int64 // when the change had been made, ms
}

func (s *Seat) copyWait(shard int) copyWait {
	w := copyWait{shard: shard, stream: s.copying[shard].Load(), made: s.cfg.Clock()}
	if w.stream != nil {
		w.ticket = w.stream.wait(shard)
	}
	return w
}

// waitCopy returns nil when the change that was made in view v is at the runner-up, or was handed over with the shard, or, after
// the time for this is up, if this host may still decide on the shard, as a majority says that was asked after the change was made. For who is cut off
// from all others is for a while the last to know, and what it acknowledged would be lost.
func (s *Seat) waitCopy(ctx context.Context, v *view, w copyWait) error {
	if done, _, _ := w.progress(); done && s.uninterrupted(v, w.shard) {
		return nil
	}
	patience := time.NewTimer(s.cfg.AckTimeout)
	defer patience.Stop()
	limit := time.NewTimer(s.cfg.AckTimeout + heardFor)
	defer limit.Stop()
	late := w.stream == nil
	for {
		changed := s.viewChanged()
		done, why, told := w.progress()
		if s.wasHanded(v, w.shard) {
			return nil
		}
		if !s.uninterrupted(v, w.shard) {
			return errOvertaken
		}
		if done || late && s.degrade(ctx, v, w, why) == nil {
			return nil
		}
		select {
		case <-told:
		case <-changed:
		case <-patience.C:
			late = true
			s.askAgain()
			patience.Reset(lookAgain)
		case <-limit.C:
			return errUncopied
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookAgain is how often who waits for a majority looks.
const lookAgain = 10 * time.Millisecond

// askAgain has the others asked for their views soon.
func (s *Seat) askAgain() {
	select {
	case s.doubt <- struct{}{}:
	default:
	}
}

// progress says whether the change is at the runner-up, why not, and what is closed when this changes.
func (w copyWait) progress() (done bool, why string, told <-chan struct{}) {
	if w.stream == nil {
		return false, degradedNoRunnerUp, nil
	}
	done, progress, told := w.stream.has(w.shard, w.ticket)
	if progress == whole {
		return done, degradedTimeout, told
	}
	return done, degradedNoCopy, told
}

// wasHanded says whether another host took the shard over from here, after view v.
func (s *Seat) wasHanded(v *view, shard int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handed[shard].view.Epoch > v.id.Epoch
}

// uninterrupted says whether what was decided on a shard in view v is still in the shard: no other host's copy has replaced it.
func (s *Seat) uninterrupted(v *view, shard int) bool { return s.since[shard].Load() <= v.id.Epoch }

// degrade acknowledges a change without a copy, if this host may still decide on the shard, and could when the change had been made.
func (s *Seat) degrade(ctx context.Context, v *view, w copyWait, why string) error {
	p := s.permit.Load()
	if s.served[w.shard].Load() != p.view.id.Epoch || s.cfg.Clock() >= p.until || p.asked <= w.made || !s.uninterrupted(v, w.shard) {
		return errUncopied
	}
	s.m.degraded.WithLabelValues(why).Inc()
	if s.cfg.faults.degraded != nil {
		s.cfg.faults.degraded(ctx)
	}
	s.says.warn(why, "changes are acknowledged without a copy", "why", why)
	return nil
}
