package store

import (
	"cmp"
	"slices"
	"strings"
)

// scanned bounds the work of one scan: it ends behind the shard in which so many keys per key asked for were seen.
const scanned = 10

// entry is a key at its position.
type entry struct {
	at  uint64
	key string
}

// scan returns keys of one space in the order of their positions, Limit or a few more, from Cursor on. A
// key's position never changes, so a key that exists throughout a scan is returned, once.
func (s *Store) scan(c *Command) Result {
	var r Result
	from, seen := c.Cursor, 0
	for i := from >> positionShift; i < Shards; i++ {
		if !c.among(int(i)) {
			continue
		}
		entries, n := s.shards[i].entries(c, from)
		for _, e := range entries {
			// Keys of one position stay together, for the cursor could not tell them apart.
			if len(r.Keys) >= c.Limit && e.at != from {
				r.Cursor = e.at
				return r
			}
			from = e.at
			r.Keys = append(r.Keys, e.key)
		}
		if seen += n; seen >= scanned*c.Limit && i+1 < Shards {
			r.Cursor = (i + 1) << positionShift
			return r
		}
	}
	return r
}

// entries returns the shard's keys that match the scan, from a position on and in order, and how many it looked at.
func (sh *shard) entries(c *Command, from uint64) (matching []entry, seen int) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sp := sh.space(c)
	if sp == nil {
		return nil, 0
	}
	for key, v := range sp.bucket.values {
		if v.over(c.Now) || !strings.HasPrefix(key, string(c.Match)) {
			continue
		}
		if at := Position(key); at >= from {
			matching = append(matching, entry{at, key})
		}
	}
	slices.SortFunc(matching, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.key, b.key))
	})
	return matching, len(sp.bucket.values)
}

// randomKey returns a key of the space, if there is one. The command brings the randomness.
func (s *Store) randomKey(c *Command) Result {
	for i := range uint64(Shards) {
		shard := (c.Cursor + i) % Shards
		if !c.among(int(shard)) {
			continue
		}
		if key, ok := s.shards[shard].randomKey(c); ok {
			return Result{Found: true, Keys: []string{key}}
		}
	}
	return Result{}
}

func (sh *shard) randomKey(c *Command) (string, bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sp := sh.space(c)
	if sp == nil {
		return "", false
	}
	list := sp.bucket.list
	for i := range list {
		at := (c.Cursor/Shards + uint64(i)) % uint64(len(list))
		if v := list[at]; !v.over(c.Now) {
			return v.key, true
		}
	}
	return "", false
}
