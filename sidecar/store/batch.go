package store

// batch runs commands on several keys as one step: it holds their shards, in ascending order, throughout. With If =
// IfAbsent none is run unless all their keys are missing. A command that is refused changes nothing and
// does not keep the others from running.
func (s *Store) batch(c *Command) Result {
	involved := c.Shards()
	var held []*shard
	for i := range involved.All() {
		s.shards[i].mu.Lock()
		defer s.shards[i].mu.Unlock()
		held = append(held, &s.shards[i])
	}
	if c.If == IfAbsent && !s.allAbsent(c) {
		return Result{}
	}
	r := Result{Done: true, Changed: true, Batch: make([]Result, len(c.Batch))}
	s.together(held, func() {
		for i := range c.Batch {
			b := &c.Batch[i]
			b.Now = c.Now
			r.Batch[i] = s.step(b)
		}
	})
	return r
}

// allAbsent says whether no key of the batch exists.
func (s *Store) allAbsent(c *Command) bool {
	for i := range c.Batch {
		b := &c.Batch[i]
		b.Now = c.Now
		if s.shards[shardOf(b.Key)].lookup(b) != nil {
			return false
		}
	}
	return true
}

// step runs one command of a batch, whose shards are held.
func (s *Store) step(b *Command) Result {
	if b.Op < opSingleKeys {
		return commands[b.Op](&s.shards[shardOf(b.Key)], b)
	}
	if b.Op != OpFlush {
		panic("store: a batch takes commands on keys, and flushes")
	}
	s.flushHeld(b)
	return Result{Done: true}
}

// rename moves what is under Key to NewKey, with its expiry. With If = IfAbsent it does so only when NewKey is missing.
func (s *Store) rename(c *Command) Result {
	from, to := shardOf(c.Key), shardOf(c.NewKey)
	first, second := &s.shards[min(from, to)], &s.shards[max(from, to)]
	first.mu.Lock()
	defer first.mu.Unlock()
	if first != second {
		second.mu.Lock()
		defer second.mu.Unlock()
	}
	var r Result
	s.together([]*shard{first, second}, func() { r = s.move(c, &s.shards[from], &s.shards[to]) })
	return r
}

// move renames between two shards, which are held.
func (s *Store) move(c *Command, from, to *shard) Result {
	v := from.lookup(c)
	if v == nil {
		return Result{}
	}
	target := *c
	target.Key = c.NewKey
	old := to.lookup(&target)
	if c.If == IfAbsent && old != nil {
		return Result{Found: true}
	}
	if old == v {
		return Result{Found: true, Done: true}
	}
	if old != nil {
		to.erase(old, c.Now)
	}
	data, hash, plain, at, cost := v.data, v.hash, v.plain, v.at, v.cost-valueCost(len(v.key))
	from.erase(v, c.Now)
	n := to.link(&target)
	n.data, n.hash, n.plain, n.stamp = data, hash, plain, to.next(c.Now)
	to.chargeValue(n, cost+valueCost(len(n.key)))
	n.space.bucket.due.schedule(n, at)
	to.note(n.encode)
	return Result{Found: true, Done: true, Changed: true}
}
