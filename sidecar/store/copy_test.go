package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// dumpShard returns the records of one shard's entries, in an order of their own.
func dumpShard(s *Store, shard int) (entries [][]byte) {
	s.Snapshot(shard, func(record []byte) {
		if recordKind(record[0]) != recShard {
			entries = append(entries, bytes.Clone(record))
		}
	})
	slices.SortFunc(entries, bytes.Compare)
	return entries
}

// manyKeys spreads a command over keys of many shards.
func manyKeys(rnd *rand.Rand, c *Command) *Command {
	c.Key = fmt.Appendf(nil, "%s%d", c.Key, rnd.IntN(20))
	return c
}

// someChange returns a command of any kind, also such that change several shards.
func someChange(rnd *rand.Rand, now int64) *Command {
	switch rnd.IntN(100) {
	case 0:
		return &Command{Op: OpFlush, Now: now, Space: Space{Tenant: "t"}}
	case 1:
		some := new(ShardSet)
		for range 40 {
			some.Add(rnd.IntN(Shards))
		}
		return &Command{Op: OpFlush, Now: now, Space: Space{Tenant: "t"}, Only: some}
	case 2, 3:
		return &Command{
			Op: OpRename, Now: now, Space: Space{Tenant: "t"},
			Key: fmt.Appendf(nil, "a%d", rnd.IntN(20)), NewKey: fmt.Appendf(nil, "b%d", rnd.IntN(20)),
		}
	case 4, 5:
		batch := &Command{Op: OpBatch, Now: now, Space: Space{Tenant: "t"}}
		for range 5 {
			b := manyKeys(rnd, anyCommand(rnd, now))
			b.Op = Op(int(OpSet) + rnd.IntN(3))
			batch.Batch = append(batch.Batch, *b)
		}
		if rnd.IntN(4) == 0 {
			batch.Batch[2] = Command{Op: OpFlush, Space: batch.Space}
		}
		return batch
	}
	return manyKeys(rnd, anyCommand(rnd, now))
}

// TestACopyEqualsWhatItCopies: two hosts adopt the records of an owner, each those of half the shards, from somewhere in the middle of
// traffic on, over what they had from before; what their sinks got gives the same again.
func TestACopyEqualsWhatItCopies(t *testing.T) {
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		owner := New(Limits{})
		var copies [2]*Store
		var kept [2][][]byte
		now := int64(1_700_000_000_000)
		for i := range copies {
			copies[i] = New(Limits{})
			copies[i].OnChange(func(record []byte) { kept[i] = append(kept[i], bytes.Clone(record)) })
			copies[i].OnCopy(func(int, []byte) {
				if now > 1_700_000_000_000 {
					t.Error("an adopted record is copied on")
				}
			})
			for range 500 { // entries that came of nothing, from another time
				copies[i].Apply(manyKeys(rnd, anyCommand(rnd, now)))
			}
			for n := range 50 {
				copies[i].Apply(&Command{Op: OpLockAcquire, Now: now, Key: fmt.Append(nil, n), Token: []byte("for ever")})
			}
		}
		var begun ShardSet
		adopt := func(shard int, record []byte) {
			if err := copies[shard%2].Adopt(record); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		owner.OnCopy(func(shard int, record []byte) {
			if got := ShardOf(record); got != shard {
				t.Fatalf("a record of shard %d says that it is of %d: %q", shard, got, record)
			}
			if begun.Has(shard) {
				adopt(shard, record)
			}
		})
		for i := range 3000 {
			now += int64(rnd.IntN(100))
			owner.Apply(someChange(rnd, now))
			if i >= 1000 && i < 1000+Shards {
				owner.Copy(i-1000, func(record []byte) { adopt(i-1000, record) })
				begun.Add(i - 1000)
			}
		}
		for i, c := range copies {
			again := New(Limits{})
			restore(t, again, kept[i])
			for name, s := range map[string]*Store{"the copy": c, "what it kept": again} {
				for shard := i; shard < Shards; shard += 2 {
					sweepBoth(owner, s, shard, now)
					if got, want := dumpShard(s, shard), dumpShard(owner, shard); !slices.EqualFunc(got, want, bytes.Equal) {
						t.Fatalf("seed %d, %s, shard %d: %s", seed, name, shard, difference(got, want))
					}
				}
			}
		}
		for i, c := range copies { // when all is over, who came last is forgotten alike
			for shard := i; shard < Shards; shard += 2 {
				sweepBoth(owner, c, shard, now+100*remember)
				if got, want := c.shards[shard].forgotten, owner.shards[shard].forgotten; got != want {
					t.Fatalf("seed %d, shard %d: all up to %d is forgotten, not to %d", seed, shard, got, want)
				}
			}
		}
	}
}

func sweepBoth(a, b *Store, shard int, now int64) {
	for _, s := range []*Store{a, b} {
		s.Apply(&Command{Op: OpSweep, Now: now, Cursor: uint64(shard), Limit: 1000})
		one := new(ShardSet)
		one.Add(shard)
		s.Apply(&Command{Op: OpListHeld, Now: now, Only: one, Limit: 1000}) // holds that are over beside others go without a record
	}
}

// TestAFlushOfSomeShardsLeavesTheOthers: at the owner, in what it keeps, and in copies, which may know newer values of others.
func TestAFlushOfSomeShardsLeavesTheOthers(t *testing.T) {
	owner, copied := New(Limits{}), New(Limits{})
	var kept [][]byte
	owner.OnChange(func(record []byte) { kept = append(kept, bytes.Clone(record)) })
	var some ShardSet
	for shard := range Shards / 2 {
		some.Add(shard)
	}
	owner.OnCopy(func(shard int, record []byte) {
		if err := copied.Adopt(record); err != nil {
			t.Fatal(err)
		}
	})
	for i := range 500 {
		owner.Apply(&Command{Op: OpSet, Key: fmt.Appendf(nil, "k%d", i), Value: []byte("v")})
	}
	owner.Apply(&Command{Op: OpFlush, Only: &some})
	replayed := New(Limits{})
	restore(t, replayed, kept)
	for name, s := range map[string]*Store{"owner": owner, "replayed": replayed, "copy": copied} {
		for i := range 500 {
			key := fmt.Appendf(nil, "k%d", i)
			if got, flushed := s.Apply(&Command{Op: OpGet, Key: key}).Found, some.Has(ShardOfKey(key)); got == flushed {
				t.Fatalf("%s: %s is there: %t, flushed: %t", name, key, got, flushed)
			}
		}
	}
	if n := len(kept); n != 501 {
		t.Errorf("the flush made %d records for the journal, which may be cut between them", n-500)
	}
	if last := kept[len(kept)-1]; !IsCache(last) {
		t.Error("a flush is not taken for one of values")
	}
}

// TestOnlySomeShardsAreLookedAt by what looks at all of them otherwise.
func TestOnlySomeShardsAreLookedAt(t *testing.T) {
	d := newDesk(t)
	var some, others ShardSet
	others = AllShards()
	for shard := 0; shard < Shards; shard += 3 {
		some.Add(shard)
	}
	others.Remove(some)
	for i := range 300 {
		name := fmt.Sprintf("n%d", i)
		d.set(name, "value", 0)
		d.do(Command{Op: OpLockAcquire, Key: []byte(name), Token: []byte("t")})
		d.commit(name, Command{Value: []byte("data"), TTL: 1000})
	}
	count := func(only *ShardSet) (keys, locks, held, sessions int, spaces []SpaceInfo, st Stats) {
		for cursor := uint64(0); ; {
			r := d.do(Command{Op: OpScan, Limit: 7, Cursor: cursor, Only: only})
			for _, key := range r.Keys {
				if only != nil && !only.Has(ShardOfKey([]byte(key))) {
					t.Errorf("the scan finds %s", key)
				}
			}
			keys += len(r.Keys)
			if cursor = r.Cursor; cursor == 0 {
				break
			}
		}
		all := Command{Limit: 10_000, Only: only}
		list := func(op Op) Result { all.Op = op; return d.do(all) }
		return keys, len(list(OpListLocks).Locks), len(list(OpListHeld).Locks), len(list(OpListSession).Sessions), list(OpListSpaces).Spaces, list(OpStats).Stats
	}
	k1, l1, h1, s1, sp1, st1 := count(&some)
	k2, l2, h2, s2, sp2, st2 := count(&others)
	k, l, h, s, sp, st := count(nil)
	if k1+k2 != k || l1+l2 != l || h1+h2 != h || s1+s2 != s || k1 == 0 || k != 300 || s != 300 {
		t.Errorf("%d+%d of %d keys, %d+%d of %d locks, %d+%d of %d held, %d+%d of %d sessions", k1, k2, k, l1, l2, l, h1, h2, h, s1, s2, s)
	}
	if sp1[0].Bytes+sp2[0].Bytes != sp[0].Bytes || st1.Bytes+st2.Bytes != st.Bytes || st1.Values+st2.Values != st.Values || st1.Locks+st2.Locks != st.Locks {
		t.Errorf("%+v and %+v are not %+v; %+v and %+v not %+v", sp1, sp2, sp, st1, st2, st)
	}
	for i := range uint64(1000) {
		if r := d.do(Command{Op: OpRandomKey, Cursor: i * 0x9E3779B97F4A7C15, Only: &some}); !r.Found || !some.Has(ShardOfKey([]byte(r.Keys[0]))) {
			t.Fatalf("a random key: %+v", r)
		}
	}
}

// TestAdoptTakesRecordsOfOneShardOnly and nothing that is none.
func TestAdoptTakesRecordsOfOneShardOnly(t *testing.T) {
	s := New(Limits{})
	kept := 0
	s.OnChange(func([]byte) { kept++ })
	for _, record := range [][]byte{nil, {0}, {99, 0, 0, 0}, NoValues(), {byte(recTogether)}, {byte(recValue)}} {
		if err := s.Adopt(record); !errors.Is(err, ErrRecord) {
			t.Errorf("%q: %v", record, err)
		}
	}
	if kept > 0 {
		t.Errorf("%d of them were kept", kept)
	}
}
