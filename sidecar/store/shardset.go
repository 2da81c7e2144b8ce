package store

import (
	"encoding/binary"
	"iter"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// ShardSet is a set of shards. Its zero value is empty.
type ShardSet [Shards / 64]uint64

// AllShards returns the set of all shards.
func AllShards() ShardSet {
	var s ShardSet
	for i := range s {
		s[i] = ^uint64(0)
	}
	return s
}

// Add adds a shard.
func (s *ShardSet) Add(shard int) { s[shard/64] |= 1 << (shard % 64) }

// Remove takes the shards of other out.
func (s *ShardSet) Remove(other ShardSet) {
	for i := range s {
		s[i] &^= other[i]
	}
}

func (s *ShardSet) union(other ShardSet) {
	for i := range s {
		s[i] |= other[i]
	}
}

// Has says whether the shard is in the set.
func (s ShardSet) Has(shard int) bool { return s[shard/64]&(1<<(shard%64)) != 0 }

// Len returns how many there are.
func (s ShardSet) Len() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// All returns the shards in ascending order.
func (s ShardSet) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s {
			for ; w != 0; w &= w - 1 {
				if !yield(64*i + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// only returns the one shard of the set, or -1 when there is another number of them.
func (s ShardSet) only() int {
	if s.Len() == 1 {
		for shard := range s.All() {
			return shard
		}
	}
	return -1
}

func (s ShardSet) append(b []byte) []byte {
	for _, w := range s {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

func (r *reader) shardSet() (s ShardSet) {
	if len(r.b) < 8*len(s) {
		r.fail("it ends too soon")
		return s
	}
	for i := range s {
		s[i], r.b = binary.LittleEndian.Uint64(r.b), r.b[8:]
	}
	return s
}

// Position returns where a key stands in the order of scans, whose cursors are positions. A shard's keys stand together.
func Position(key string) uint64 { return xxhash.Sum64String(key) >> 1 }

// ShardOfPosition returns the shard in which a scan goes on.
func ShardOfPosition(at uint64) int { return int(at >> positionShift) }

// ShardOfKey returns the shard in which a key is, and with it the key's session, lock and value.
func ShardOfKey(key []byte) int { return int(shardOf(key)) }

// Shards returns the shards that the command looks at or changes: that of its key, those of a batch's commands, or those in
// Only, which are all of them when it is nil.
func (c *Command) Shards() (s ShardSet) {
	switch {
	case c.Op < opSingleKeys:
		s.Add(ShardOfKey(c.Key))
	case c.Op == OpRename:
		s.Add(ShardOfKey(c.Key))
		s.Add(ShardOfKey(c.NewKey))
	case c.Op == OpBatch:
		for i := range c.Batch {
			s.union(c.Batch[i].Shards())
		}
	case c.Op == OpSweep:
		s.Add(int(c.Cursor % Shards))
	case c.Only != nil:
		s = *c.Only
	default:
		s = AllShards()
	}
	return s
}

// SingleKey says whether the command is about its Key alone.
func (c *Command) SingleKey() bool { return c.Op < opSingleKeys }

// among says whether the command looks at a shard. Only commands that are about no key ask.
func (c *Command) among(shard int) bool { return c.Only == nil || c.Only.Has(shard) }
