package owner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// part is what one owner is asked of a command that several are asked.
type part struct {
	owner  string
	shards store.ShardSet // of it
	c      store.Command
	at     []int // where the commands of a batch stand in the whole
	r      store.Result
	err    error
}

// divided is a command in parts.
type divided struct {
	c     *store.Command
	done  []*part
	split func(v *view) []*part // what is not done yet, by owner
	undo  func(p *part)         // it is not to be asked again
}

// assemble has the parts of a command decided at the same time, each by its owner, and asks again for those that nobody decided. Every part is
// decided when it returns nil; the error names the owners of those that are not.
func (a *Arbiter) assemble(ctx context.Context, d *divided) error {
	var p patience
	var unknown []error
	for {
		changed := a.host.viewChanged()
		v := a.host.view()
		parts := d.split(v)
		a.tryAll(ctx, v, parts)
		var open []error
		for _, part := range parts {
			switch {
			case part.err == nil:
				d.undo(part)
				d.done = append(d.done, part)
			case errors.Is(part.err, arbiter.ErrNotDecided), errors.Is(part.err, arbiter.ErrUnreachable) && repeatable(&part.c):
				open = append(open, part.err)
			default:
				d.undo(part)
				unknown = append(unknown, part.err)
			}
		}
		if len(open)+len(unknown) == 0 {
			return nil
		}
		if len(open) == 0 || !p.wait(ctx, a.cfg.Patience, changed) {
			return d.incomplete(open, unknown)
		}
		a.m.again.Inc()
	}
}

// incomplete is the error of a command of which parts were not decided. Nothing was done only if no part of it was.
func (d *divided) incomplete(open, unknown []error) error {
	what := arbiter.ErrNotDecided
	err := errors.Join(append(unknown, open...)...)
	if errors.Is(err, arbiter.ErrUnreachable) {
		what = arbiter.ErrUnreachable
	} else if len(d.done) > 0 && !repeatable(d.c) {
		return fmt.Errorf("%w: a part of it was done, another was not: %s", arbiter.ErrUnreachable, err)
	}
	return fmt.Errorf("%w: %s", what, err)
}

// tryAll asks all owners at once and returns when each has answered or could not.
func (a *Arbiter) tryAll(ctx context.Context, v *view, parts []*part) {
	var asked sync.WaitGroup
	for i, p := range parts {
		try := func() { p.r, p.err = a.try(ctx, v, p.owner, &p.c) }
		if i == len(parts)-1 { // one of them needs nobody else
			try()
		} else {
			asked.Go(try)
		}
	}
	asked.Wait()
}

// batch has a batch of independent commands decided, those of each owner as one step.
func (a *Arbiter) batch(ctx context.Context, c *store.Command) (store.Result, error) {
	if _, err := a.host.view().ownerOf(c.Shards()); err == nil {
		r, err := a.persist(ctx, c)
		if !errors.Is(err, arbiter.ErrSeveralOwners) { // the view changed just now
			return r, err
		}
	}
	if slices.ContainsFunc(c.Batch, func(b store.Command) bool { return b.Op == store.OpFlush }) {
		return a.oneByOne(ctx, c)
	}
	open := make(map[int]bool, len(c.Batch))
	for i := range c.Batch {
		open[i] = true
	}
	d := &divided{c: c, split: func(v *view) []*part { return splitBatch(v, c, open) }, undo: func(p *part) {
		for _, i := range p.at {
			delete(open, i)
		}
	}}
	if err := a.assemble(ctx, d); err != nil {
		return store.Result{}, err
	}
	r := store.Result{Done: true, Batch: make([]store.Result, len(c.Batch))}
	for _, p := range d.done {
		r.Changed = r.Changed || p.r.Changed
		c.Now = max(c.Now, p.c.Now)
		for k, i := range p.at {
			if k < len(p.r.Batch) {
				r.Batch[i] = p.r.Batch[k]
			}
		}
	}
	return r, nil
}

// oneByOne has the commands of a batch decided one after the other, for there is a flush among them, which is all owners'.
func (a *Arbiter) oneByOne(ctx context.Context, c *store.Command) (store.Result, error) {
	r := store.Result{Done: true, Batch: make([]store.Result, len(c.Batch))}
	for i := range c.Batch {
		var err error
		r.Batch[i], err = a.Do(ctx, &c.Batch[i])
		if i > 0 && (errors.Is(err, arbiter.ErrNotDecided) || errors.Is(err, arbiter.ErrCannotKeep)) {
			err = fmt.Errorf("%w: what came before it was done: %s", arbiter.ErrUnreachable, err)
		}
		if err != nil {
			return store.Result{}, err
		}
		r.Changed = r.Changed || r.Batch[i].Changed
		c.Now = c.Batch[i].Now
	}
	return r, nil
}

// splitBatch returns the parts of a batch's open commands.
func splitBatch(v *view, c *store.Command, open map[int]bool) []*part {
	by := make(map[string]*part)
	for _, i := range slices.Sorted(maps.Keys(open)) {
		id := v.owner(store.ShardOfKey(c.Batch[i].Key))
		p := by[id]
		if p == nil {
			p = &part{owner: id, c: store.Command{Op: store.OpBatch, Space: c.Space, Limit: c.Limit}}
			by[id] = p
		}
		p.c.Batch = append(p.c.Batch, c.Batch[i])
		p.at = append(p.at, i)
	}
	return slices.Collect(maps.Values(by))
}

// scatter has every owner decide a command for its shards among some, and returns their parts.
func (a *Arbiter) scatter(ctx context.Context, c *store.Command, about store.ShardSet) ([]*part, error) {
	d := &divided{
		c: c, split: func(v *view) []*part { return splitShards(v, c, about) },
		undo: func(p *part) { about.Remove(p.shards) },
	}
	err := a.assemble(ctx, d)
	for _, p := range d.done {
		c.Now = max(c.Now, p.c.Now)
	}
	// Those who answered in an earlier round come first otherwise: merging must not depend on it.
	slices.SortStableFunc(d.done, func(a, b *part) int { return cmp.Compare(a.owner, b.owner) })
	return d.done, err
}

// splitShards returns a part for each owner of some shards.
func splitShards(v *view, c *store.Command, about store.ShardSet) []*part {
	by := make(map[string]*part)
	for shard := range about.All() {
		id := v.owner(shard)
		p := by[id]
		if p == nil {
			p = &part{owner: id, c: *c}
			by[id] = p
		}
		p.shards.Add(shard)
	}
	parts := slices.Collect(maps.Values(by))
	for _, p := range parts {
		p.c.Only = &p.shards
	}
	return parts
}

// gather has a command decided that is about all keys, and puts the answers together.
func (a *Arbiter) gather(ctx context.Context, c *store.Command) (store.Result, error) {
	parts, err := a.scatter(ctx, c, c.Shards())
	if err != nil {
		return store.Result{}, err
	}
	switch c.Op {
	case store.OpRandomKey:
		return pickOne(c, parts), nil
	case store.OpListSpaces:
		return store.Result{Spaces: mergeSpaces(parts)}, nil
	}
	r := store.Result{Done: c.Op == store.OpFlush}
	for _, p := range parts {
		r.Changed = r.Changed || p.r.Changed
		r.Locks = append(r.Locks, p.r.Locks...)
		r.Sessions = append(r.Sessions, p.r.Sessions...)
		addStats(&r.Stats, &p.r.Stats)
	}
	r.Locks = r.Locks[:min(len(r.Locks), max(0, c.Limit))]
	r.Sessions = r.Sessions[:min(len(r.Sessions), max(0, c.Limit))]
	return r, nil
}

// pickOne returns one of the keys that the owners picked. The command brings the randomness.
func pickOne(c *store.Command, parts []*part) store.Result {
	parts = slices.DeleteFunc(parts, func(p *part) bool { return !p.r.Found })
	if len(parts) == 0 {
		return store.Result{}
	}
	return parts[c.Cursor%uint64(len(parts))].r
}

func addStats(sum, s *store.Stats) {
	sum.Values += s.Values
	sum.Sessions += s.Sessions
	sum.Locks += s.Locks
	sum.Bytes += s.Bytes
	sum.Limit += s.Limit
	sum.Evicted += s.Evicted
	sum.Own = sum.Own || s.Own
}

func mergeSpaces(parts []*part) []store.SpaceInfo {
	bySpace := make(map[store.Space]store.SpaceInfo)
	for _, p := range parts {
		for _, i := range p.r.Spaces {
			sum := bySpace[i.Space]
			sum.Space = i.Space
			sum.Values += i.Values
			sum.Sessions += i.Sessions
			sum.Expiring += i.Expiring
			sum.Bytes += i.Bytes
			bySpace[i.Space] = sum
		}
	}
	return slices.SortedFunc(maps.Values(bySpace), func(a, b store.SpaceInfo) int {
		return cmp.Or(strings.Compare(a.Space.Tenant, b.Space.Tenant), strings.Compare(a.Space.Bucket, b.Space.Bucket))
	})
}

// scan takes one step of a scan: every owner takes one in its shards, and what lies behind the least of their cursors is left for the next.
// A cursor is a position in the order of all keys, so it does not matter who owns what then.
func (a *Arbiter) scan(ctx context.Context, c *store.Command) (store.Result, error) {
	var about store.ShardSet
	for shard := store.ShardOfPosition(c.Cursor); shard < store.Shards; shard++ {
		about.Add(shard)
	}
	each := *c
	each.Limit = c.Limit/max(1, len(a.host.view().members)) + 1
	parts, err := a.scatter(ctx, &each, about)
	c.Now = each.Now
	if err != nil {
		return store.Result{}, err
	}
	var r store.Result
	for _, p := range parts {
		if at := p.r.Cursor; at != 0 && (r.Cursor == 0 || at < r.Cursor) {
			r.Cursor = at
		}
		r.Keys = append(r.Keys, p.r.Keys...)
	}
	r.Keys = slices.DeleteFunc(r.Keys, func(key string) bool { return r.Cursor != 0 && store.Position(key) >= r.Cursor })
	slices.SortFunc(r.Keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(store.Position(a), store.Position(b)), strings.Compare(a, b))
	})
	return r, nil
}
