package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// sweepAll drops what is over at now, also holds that are over beside others, which go without a record.
func sweepAll(s *Store, now int64) {
	for shard := range uint64(Shards) {
		s.Apply(&Command{Op: OpSweep, Now: now, Cursor: shard, Limit: 1000})
	}
	s.Apply(&Command{Op: OpListHeld, Now: now, Limit: 1 << 30})
}

// dump returns the records of every entry, in an order of their own.
func dump(s *Store) (entries [][]byte) {
	for shard := range Shards {
		s.Snapshot(shard, func(record []byte) {
			if recordKind(record[0]) != recShard {
				entries = append(entries, bytes.Clone(record))
			}
		})
	}
	slices.SortFunc(entries, bytes.Compare)
	return entries
}

// anyCommand returns a command on one of few keys, so that commands meet.
func anyCommand(rnd *rand.Rand, now int64) *Command {
	pick := func(of ...string) []byte { return []byte(of[rnd.IntN(len(of))]) }
	c := &Command{
		Op: Op(rnd.IntN(int(opSingleKeys))), Now: now,
		Space: Space{Tenant: "t", Bucket: string(pick("", "b"))},
		Key:   pick("a", "b", "c", "d"), Token: pick("t1", "t2", "t3"),
		Value: pick("", "1", "-7", string(bytes.Repeat([]byte("wide "), 400))),
		Match: pick("1", "-7"), Delta: int64(rnd.IntN(5)), Limit: 1 << 20,
		TTL: int64(rnd.IntN(3)) * 500, Lease: 1 + int64(rnd.IntN(2000)),
		If: Condition(rnd.IntN(5)), KeepTTL: rnd.IntN(2) == 0, Release: rnd.IntN(2) == 0, Touch: rnd.IntN(4) == 0,
		Shared: rnd.IntN(2) == 0, Bound: rnd.IntN(2) == 0, Who: &Who{PID: rnd.IntN(9), SAPI: "cli", Script: "x.php"},
		Fence: uint64(now)<<stampBits + uint64(rnd.IntN(3)),
	}
	if c.Op >= OpHashSet && c.Op <= OpHashIncr {
		c.Pairs = [][]byte{pick("f", "g"), pick("1", "2")}
	}
	return c
}

// TestReplayedRecordsGiveTheSameStore: all records, and a snapshot followed by the records since it began.
func TestReplayedRecordsGiveTheSameStore(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		original, replayed, caughtUp := New(Limits{}), New(Limits{}), New(Limits{})
		var log, snapshot [][]byte
		since := 0
		original.OnChange(func(record []byte) { log = append(log, bytes.Clone(record)) })
		now := int64(1_700_000_000_000)
		for i := range 3000 {
			now += int64(rnd.IntN(100))
			switch rnd.IntN(200) {
			case 2:
				batch := &Command{Op: OpBatch, Now: now, Space: Space{Tenant: "t"}}
				for range 4 {
					b := anyCommand(rnd, now)
					b.Op, b.Space = Op(int(OpSet)+rnd.IntN(2)), batch.Space
					batch.Batch = append(batch.Batch, *b)
				}
				original.Apply(batch)
			case 0:
				original.Apply(&Command{Op: OpFlush, Now: now, Space: Space{Tenant: "t"}})
			case 1:
				original.Apply(&Command{Op: OpRename, Now: now, Space: Space{Tenant: "t"}, Key: []byte("a"), NewKey: []byte("c")})
			default:
				original.Apply(anyCommand(rnd, now))
			}
			if i == 1500 {
				since = len(log)
			}
			if i >= 1500 && i < 1500+Shards { // shard by shard, while service goes on
				original.Snapshot(i-1500, func(record []byte) { snapshot = append(snapshot, bytes.Clone(record)) })
			}
		}
		restore(t, replayed, log)
		restore(t, caughtUp, snapshot)
		restore(t, caughtUp, log[since:])
		for _, s := range []*Store{original, replayed, caughtUp} {
			sweepAll(s, now)
		}
		want := dump(original)
		for name, s := range map[string]*Store{"all records": replayed, "snapshot and later records": caughtUp} {
			if got := dump(s); !slices.EqualFunc(got, want, bytes.Equal) {
				t.Fatalf("seed %d, %s: %s", seed, name, difference(got, want))
			}
			if got, want := s.accounts.total.bytes.Load(), original.accounts.total.bytes.Load(); got > want*11/10 || got < want*9/10 {
				t.Errorf("seed %d, %s: %d bytes are accounted for, the original has %d", seed, name, got, want)
			}
		}
	}
}

// holdCommand returns a command on one of two locks with many holders at a time.
func holdCommand(rnd *rand.Rand, now int64) *Command {
	c := &Command{
		Op: OpLockAcquire, Now: now, Space: Space{Tenant: "t"}, Key: fmt.Append(nil, "l", rnd.IntN(2)), Token: fmt.Append(nil, "t", rnd.IntN(12)),
		Lease: int64(rnd.IntN(40)) * 50, Shared: rnd.IntN(8) > 0, Who: &Who{PID: 1, Script: "x.php"},
	}
	switch rnd.IntN(10) {
	case 0, 1, 2:
		c.Op = OpLockRelease
	case 3, 4:
		c.Op = OpLockRenew
	case 5:
		c.Op = OpLockInfo
	case 6:
		if rnd.IntN(20) == 0 {
			c.Op = OpLockForce
		}
	}
	return c
}

// TestReplayedHoldsGiveTheSameLock: by all records, by a snapshot and all since any time before it, and at a copy; each has the holders in the
// order of their grants. Records of holds do not grow with their number.
func TestReplayedHoldsGiveTheSameLock(t *testing.T) {
	most := 0
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		original, replayed, caughtUp, copied := New(Limits{}), New(Limits{}), New(Limits{}), New(Limits{})
		var log, snapshot [][]byte
		original.OnChange(func(record []byte) {
			if len(record) > 100 {
				t.Errorf("a record has %d bytes", len(record))
			}
			log = append(log, bytes.Clone(record))
		})
		original.OnCopy(func(shard int, record []byte) {
			if err := copied.Adopt(record); err != nil {
				t.Fatal(err)
			}
		})
		now, since := int64(1_700_000_000_000), 0
		for i := range 600 {
			now += int64(rnd.IntN(100))
			original.Apply(holdCommand(rnd, now))
			if i == 300 {
				since = rnd.IntN(len(log))
				for shard := range Shards {
					original.Snapshot(shard, func(record []byte) { snapshot = append(snapshot, bytes.Clone(record)) })
				}
			}
		}
		restore(t, replayed, log)
		restore(t, caughtUp, snapshot)
		restore(t, caughtUp, log[since:])
		for _, s := range []*Store{original, replayed, caughtUp, copied} {
			sweepAll(s, now)
		}
		for _, l := range original.Apply(&Command{Op: OpListHeld, Now: now, Limit: 10}).Locks {
			most = max(most, len(l.Holds))
		}
		want := dump(original)
		for name, s := range map[string]*Store{"all records": replayed, "snapshot and records": caughtUp, "copy": copied} {
			if got := dump(s); !slices.EqualFunc(got, want, bytes.Equal) {
				t.Fatalf("seed %d, %s: %s", seed, name, difference(got, want))
			}
		}
	}
	if most < 4 {
		t.Errorf("no lock had more than %d holders", most)
	}
}

// TestALockOfManyIsSnapshotInPieces: no record grows with the number of its holders.
func TestALockOfManyIsSnapshotInPieces(t *testing.T) {
	s, restored := New(Limits{}), New(Limits{})
	const holders = 3000
	for i := range holders {
		s.Apply(&Command{
			Op: OpLockAcquire, Key: []byte("l"), Token: fmt.Append(nil, i), Shared: true, Who: &Who{Script: string(bytes.Repeat([]byte("x"), 1000))},
		})
	}
	for shard := range Shards {
		s.Snapshot(shard, func(record []byte) {
			if len(record) > 2000 {
				t.Errorf("a record has %d bytes", len(record))
			}
			restore(t, restored, [][]byte{record})
		})
	}
	info := &Command{Op: OpLockInfo, Key: []byte("l")}
	want, got := s.Apply(info).Locks[0], restored.Apply(info).Locks[0]
	if len(got.Holds) != holders || !slices.Equal(got.Holds, want.Holds) || !got.Shared {
		t.Errorf("%d holds came back", len(got.Holds))
	}
}

func restore(t *testing.T, s *Store, records [][]byte) {
	t.Helper()
	for _, record := range records {
		if err := s.Restore(record); err != nil {
			t.Fatalf("restore %q: %v", record, err)
		}
	}
}

func difference(got, want [][]byte) string {
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !bytes.Equal(got[i], want[i]) {
			return fmt.Sprintf("%d and %d entries; at %d\n got %q\nwant %q", len(got), len(want), i, at(got, i), at(want, i))
		}
	}
	return "no difference"
}

func at(list [][]byte, i int) []byte {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// TestAStepOnSeveralKeysIsOneRecord: a daemon that dies in the middle of writing has all of the step or nothing.
func TestAStepOnSeveralKeysIsOneRecord(t *testing.T) {
	s := New(Limits{})
	var log [][]byte
	s.OnChange(func(record []byte) { log = append(log, bytes.Clone(record)) })
	set := func(key, value string) Command {
		return Command{Op: OpSet, Key: []byte(key), Value: []byte(value)}
	}
	first := set("a", "kept")
	s.Apply(&first)
	steps := []*Command{
		{Op: OpRename, Key: []byte("a"), NewKey: []byte("b")},
		{Op: OpBatch, Batch: []Command{set("c", "1"), set("d", "2"), {Op: OpFlush}, set("e", "3")}},
	}
	for i, c := range steps {
		s.Apply(c)
		if len(log) != i+2 {
			t.Fatalf("step %d: there are %d records", i, len(log))
		}
		if !IsCache(log[i+1]) {
			t.Errorf("step %d: its record is not about values", i)
		}
	}
	for upTo, want := range map[int][]string{1: {"a"}, 2: {"b"}, 3: {"e"}} {
		replayed := New(Limits{})
		restore(t, replayed, log[:upTo])
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			if got := replayed.Apply(&Command{Op: OpGet, Key: []byte(key)}).Found; got != slices.Contains(want, key) {
				t.Errorf("after %d records, %s is there: %t", upTo, key, got)
			}
		}
	}
}

// TestALargeHashIsSnapshotInPieces: no record grows with the number of a hash's fields.
func TestALargeHashIsSnapshotInPieces(t *testing.T) {
	s, restored := New(Limits{}), New(Limits{})
	const fields = 5000
	for i := range fields {
		s.Apply(&Command{Op: OpHashSet, Key: []byte("h"), Pairs: [][]byte{fmt.Append(nil, i), bytes.Repeat([]byte("x"), 1000)}})
	}
	for shard := range Shards {
		s.Snapshot(shard, func(record []byte) {
			if len(record) > 2*piece {
				t.Errorf("a record has %d bytes", len(record))
			}
			restore(t, restored, [][]byte{record})
		})
	}
	want, got := s.Apply(&Command{Op: OpHashAll, Key: []byte("h")}), restored.Apply(&Command{Op: OpHashAll, Key: []byte("h")})
	if got.N != fields || !slices.Equal(got.Keys, want.Keys) || !slices.EqualFunc(got.Values, want.Values, bytes.Equal) {
		t.Errorf("%d fields came back", got.N)
	}
}

// TestWhereValuesAreLeftOutOlderOnesDoNotComeBack: sessions stay.
func TestWhereValuesAreLeftOutOlderOnesDoNotComeBack(t *testing.T) {
	s := New(Limits{})
	s.Apply(&Command{Op: OpSet, Key: []byte("k"), Value: []byte("old")})
	s.Apply(&Command{Op: OpSessionCommit, Key: []byte("sid"), Value: []byte("data"), TTL: 1000})
	restore(t, s, [][]byte{NoValues()})
	if st := s.Apply(&Command{Op: OpStats}).Stats; st.Values != 0 || st.Sessions != 1 {
		t.Errorf("there are %d values and %d sessions", st.Values, st.Sessions)
	}
}

// TestPromise3HoldsAcrossAReplay: a writer whose entry was forgotten, and replaced by a write without a lock, is refused
// after a replay too.
func TestPromise3HoldsAcrossAReplay(t *testing.T) {
	s, replayed := New(Limits{}), New(Limits{})
	var log [][]byte
	s.OnChange(func(record []byte) { log = append(log, bytes.Clone(record)) })
	start := int64(1_700_000_000_000)
	late := s.Apply(&Command{Op: OpSessionOpen, Now: start, Key: []byte("sid"), Token: []byte("late"), Lease: 1000})
	after := start + 1000 + remember
	s.Apply(&Command{Op: OpSessionCommit, Now: after, Key: []byte("sid"), Value: []byte("newer"), TTL: 9999})
	restore(t, replayed, log)
	for name, s := range map[string]*Store{"original": s, "replayed": replayed} {
		r := s.Apply(&Command{
			Op: OpSessionCommit, Now: after + 1, Key: []byte("sid"), Token: []byte("late"), Fence: late.Fence, Value: []byte("stale"), TTL: 9999,
		})
		if r.Status != Refused {
			t.Errorf("%s: the stale write was accepted: %+v", name, r)
		}
	}
}

// FuzzRestore: whatever the bytes, they are a record or are refused; nothing panics.
func FuzzRestore(f *testing.F) {
	s := New(Limits{})
	s.OnChange(func(record []byte) { f.Add(bytes.Clone(record)) })
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range int64(200) {
		s.Apply(anyCommand(rnd, 1_700_000_000_000+i))
	}
	s.Apply(&Command{Op: OpFlush, Only: &ShardSet{1, 2, 3, 4}})
	s.Copy(5, func(record []byte) { f.Add(bytes.Clone(record)) })
	f.Fuzz(func(t *testing.T, record []byte) {
		s := New(Limits{})
		if err := s.Restore(record); err != nil && !errors.Is(err, ErrRecord) {
			t.Fatal(err)
		}
	})
}
