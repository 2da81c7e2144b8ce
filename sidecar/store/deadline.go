package store

import (
	"container/heap"
	"slices"
)

// perishable is an entry that can be dropped at a time of its own.
type perishable interface {
	when() *deadline
	drop(sh *shard) // removes the entry from its heap and its space
}

// deadline is an entry's place in its shard's heap. Entries embed it.
type deadline struct {
	at    int64 // ms; 0: never
	index int   // in the heap, plus one; 0: not in it
}

func (d *deadline) when() *deadline { return d }

// over says whether the time is up.
func (d *deadline) over(now int64) bool { return d.at != 0 && d.at <= now }

// deadlines is a heap, soonest first. It is exact: each entry is in it once, so its size is bounded by
// the number of entries however often their time is moved.
type deadlines []perishable

func (h deadlines) Len() int           { return len(h) }
func (h deadlines) Less(i, j int) bool { return h[i].when().at < h[j].when().at }

func (h deadlines) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].when().index, h[j].when().index = i+1, j+1
}

func (h *deadlines) Push(x any) {
	p := x.(perishable)
	*h = append(*h, p)
	p.when().index = len(*h)
}

func (h *deadlines) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	p.when().index = 0
	return p
}

// schedule sets the time at which p is over; 0 means never.
func (h *deadlines) schedule(p perishable, at int64) {
	d := p.when()
	was := d.at
	d.at = at
	switch {
	case at == 0 && d.index != 0:
		d.at = was
		heap.Remove(h, d.index-1)
		d.at = 0
	case at != 0 && d.index == 0:
		heap.Push(h, p)
	case at != was:
		heap.Fix(h, d.index-1)
	}
}

// sweep drops at most limit entries whose time is up and returns how many.
func (h *deadlines) sweep(sh *shard, now int64, limit int) int {
	dropped := 0
	for dropped < limit && len(*h) > 0 && (*h)[0].when().over(now) {
		(*h)[0].drop(sh)
		dropped++
	}
	return dropped
}

// sweep drops at most Limit entries of one shard whose time is up.
func (s *Store) sweep(c *Command) Result {
	sh := &s.shards[c.Cursor%Shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	dropped := sh.due.sweep(sh, c.Now, c.Limit)
	for _, sp := range slices.Clone(sh.order) { // a space that becomes empty leaves it
		dropped += sp.bucket.due.sweep(sh, c.Now, c.Limit-dropped)
	}
	return Result{N: int64(dropped)}
}
