package owner

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

func set(key, value string) store.Command {
	return store.Command{Op: store.OpSet, Space: shop, Key: []byte(key), Value: []byte(value)}
}

func get(key string) store.Command {
	return store.Command{Op: store.OpGet, Space: shop, Key: []byte(key)}
}

func batch(cmds ...store.Command) store.Command {
	return store.Command{Op: store.OpBatch, Space: shop, Batch: cmds, Limit: 1 << 20}
}

// fill sets n keys and returns them.
func (w *town) fill(n int) (keys []string) {
	for i := range n {
		key := fmt.Sprintf("n%d", i)
		w.must("a", set(key, fmt.Sprint(i)))
		keys = append(keys, key)
	}
	return keys
}

// TestBatchesAreDividedAmongOwners, and their results come in order.
func TestBatchesAreDividedAmongOwners(t *testing.T) {
	inTown(t, three, func(t *testing.T, w *town) {
		var sets, gets []store.Command
		for i := range 50 {
			sets = append(sets, set(fmt.Sprint("k", i), fmt.Sprint("v", i)))
			gets = append(gets, get(fmt.Sprint("k", i)), get(fmt.Sprint("missing", i)))
		}
		began := time.Now()
		if r := w.must("a", batch(sets...)); !r.Done || len(r.Batch) != 50 {
			t.Errorf("%+v", r)
		}
		if took := time.Since(began); took > 3*hop {
			t.Errorf("the owners were not asked at the same time: it took %v", took)
		}
		for i, r := range w.must("b", batch(gets...)).Batch {
			want := ""
			if i%2 == 0 {
				want = fmt.Sprint("v", i/2)
			}
			if string(r.Value) != want || r.Found != (want != "") {
				t.Errorf("%s: %+v", gets[i].Key, r)
			}
		}
		if n := w.asked("c"); n != 2 {
			t.Errorf("one owner was asked %d times for its part of two batches", n)
		}
	})
}

// TestOneStepIsRefusedUnlessItHasOneOwner: MSETNX, EXEC and RENAME.
func TestOneStepIsRefusedUnlessItHasOneOwner(t *testing.T) {
	inTown(t, three, func(t *testing.T, w *town) {
		mine, alsoMine, other := string(w.keyOf("b", 0)), string(w.keyOf("b", 1)), string(w.keyOf("c", 0))
		absent := batch(set(mine, "1"), set(other, "2"))
		absent.If = store.IfAbsent
		exec := batch(set(mine, "1"), set(other, "2"))
		exec.OneStep = true
		flushed := batch(set(mine, "1"), store.Command{Op: store.OpFlush, Space: shop})
		flushed.OneStep = true
		rename := store.Command{Op: store.OpRename, Space: shop, Key: []byte(mine), NewKey: []byte(other)}
		for what, c := range map[string]store.Command{"MSETNX": absent, "EXEC": exec, "EXEC with a flush": flushed, "RENAME": rename} {
			if _, err := w.do("a", c); !errors.Is(err, arbiter.ErrSeveralOwners) {
				t.Errorf("%s over two owners: %v", what, err)
			}
		}
		if r := w.must("a", get(mine)); r.Found {
			t.Errorf("a refused step set %q", r.Value)
		}
		absent.Batch[1], exec.Batch[1] = set(alsoMine, "2"), set(alsoMine, "3")
		if r := w.must("a", absent); !r.Done {
			t.Errorf("MSETNX of one owner's keys: %+v", r)
		}
		if r := w.must("a", absent); r.Done {
			t.Errorf("MSETNX of keys that exist: %+v", r)
		}
		if r := w.must("a", exec); !r.Done || len(r.Batch) != 2 {
			t.Errorf("EXEC of one owner's keys: %+v", r)
		}
		rename.NewKey = []byte(alsoMine)
		if r := w.must("a", rename); !r.Done || string(w.must("c", get(alsoMine)).Value) != "1" {
			t.Errorf("RENAME of one owner's keys: %+v", r)
		}
		w.move("a") // a single member owns everything
		rename.Key, rename.NewKey = []byte(alsoMine), []byte(other)
		if r := w.must("a", rename); !r.Done {
			t.Errorf("RENAME where one owns all: %+v", r)
		}
		if r := w.must("b", flushed); !r.Done {
			t.Errorf("EXEC with a flush where one owns all: %+v", r)
		}
	})
}

// TestABatchOfWhichAPartIsMissingIsNoSuccess: reads may be asked again, writes whose answer is lost are unknown.
func TestABatchOfWhichAPartIsMissingIsNoSuccess(t *testing.T) {
	inTown(t, three, func(t *testing.T, w *town) {
		keys := w.fill(30)
		var sets, gets []store.Command
		for _, key := range keys {
			sets, gets = append(sets, set(key, "new")), append(gets, get(key))
		}
		for what, c := range map[string]struct {
			hinder     func()
			sets, gets error
		}{
			"lost":          {func() { w.unanswered("c", lostAnswer) }, arbiter.ErrUnreachable, arbiter.ErrUnreachable},
			"not connected": {func() { w.unanswered("c", notSent) }, arbiter.ErrUnreachable, arbiter.ErrNotDecided}, // a part was set
		} {
			c.hinder()
			for kind, try := range map[string]struct {
				c    store.Command
				want error
			}{"writes": {batch(sets...), c.sets}, "reads": {batch(gets...), c.gets}} {
				_, err := w.do("a", try.c)
				for _, e := range []error{arbiter.ErrUnreachable, arbiter.ErrNotDecided} {
					if errors.Is(err, e) != (e == try.want) {
						t.Errorf("%s, %s: %v", what, kind, err)
					}
				}
				if err != nil && !strings.Contains(err.Error(), "owner c") {
					t.Errorf("%s, %s: whose part is missing? %v", what, kind, err)
				}
			}
			w.messages(nil)
		}
		lost := 0
		w.messages(func(_, to string, _ byte) fate {
			if to == "c" {
				if lost++; lost == 1 {
					return lostAnswer
				}
			}
			return delivered
		})
		if r := w.must("a", batch(gets...)); len(r.Batch) != 30 || !r.Batch[29].Found {
			t.Errorf("reads after a lost answer: %+v", r)
		}
		go func() { // an owner leaves while it is asked
			time.Sleep(500 * time.Millisecond)
			w.move("a", "b")
		}()
		w.ill("c", notServing)
		if r := w.must("a", batch(sets...)); len(r.Batch) != 30 || slices.ContainsFunc(r.Batch, func(r store.Result) bool { return !r.Done }) {
			t.Errorf("writes while the owner changes: %+v", r)
		}
		for _, key := range keys {
			if r := w.must("b", get(key)); string(r.Value) != "new" {
				t.Errorf("%s is %q", key, r.Value)
			}
		}
	})
}

// TestAFlushReachesAllOwners, and each flushes what it owns, or it is not done.
func TestAFlushReachesAllOwners(t *testing.T) {
	flush := store.Command{Op: store.OpFlush, Space: shop}
	inTown(t, three, func(t *testing.T, w *town) {
		w.fill(100)
		w.must("b", store.Command{Op: store.OpSet, Space: store.Space{Tenant: "other"}, Key: []byte("k"), Value: []byte("v")})
		if r := w.must("a", flush); !r.Done {
			t.Errorf("%+v", r)
		}
		if n := w.must("c", store.Command{Op: store.OpStats}).Stats.Values; n != 1 {
			t.Errorf("%d values are left, of which one is another's", n)
		}
		w.fill(100)
		w.unanswered("c", notSent)
		if _, err := w.do("a", flush); !errors.Is(err, arbiter.ErrUnreachable) || errors.Is(err, arbiter.ErrNotDecided) {
			t.Errorf("when an owner cannot be reached and the others flushed: %v", err)
		}
		w.messages(nil)
		if n := w.must("b", store.Command{Op: store.OpStats}).Stats.Values; n < 20 || n > 60 {
			t.Errorf("%d of 100 values are left of one owner of three", n)
		}
		w.fill(100)
		w.ill("a", notPermitted)
		go func() {
			time.Sleep(time.Second)
			w.ill("a", 0)
			w.move("b", "c")
		}()
		w.must("a", flush)
		if n := w.must("b", store.Command{Op: store.OpStats, Space: shop}).Stats.Values; n != 0 {
			t.Errorf("after a flush during which owners changed, %d values are there", n)
		}
		w.fill(10)
		both := batch(flush, store.Command{Op: store.OpFlush, Space: store.Space{Tenant: "other"}})
		if r := w.must("a", both); len(r.Batch) != 2 || w.must("b", store.Command{Op: store.OpStats}).Stats.Values != 0 {
			t.Errorf("FLUSHALL: %+v", r)
		}
	})
}

// TestListsAndCountsAreOfAllOwners, each entry once although others have copies, or an error says whose part is missing.
func TestListsAndCountsAreOfAllOwners(t *testing.T) {
	inTown(t, three, func(t *testing.T, w *town) {
		keys := w.fill(60)
		for i, key := range keys {
			w.must(three[i%3], acquire([]byte(key), "t"))
			w.must(three[i%3], open([]byte(key), "t"))
			w.must("a", store.Command{Op: store.OpSessionCommit, Space: shop, Key: []byte(key), Value: []byte("d"), TTL: 1000, Fence: 1})
		}
		for shard := range store.Shards { // copies that are not to be counted
			w.hosts[w.hosts["a"].view().owner(shard)].store.Copy(shard, func(record []byte) {
				for _, n := range three {
					if n != w.hosts["a"].current.owner(shard) {
						w.hosts[n].store.Adopt(slices.Clone(record))
					}
				}
			})
		}
		list := func(op store.Op) store.Result { return w.must("b", store.Command{Op: op, Space: shop, Limit: 1000}) }
		if n := len(list(store.OpListLocks).Locks); n != 60 {
			t.Errorf("%d named locks", n)
		}
		if n := len(list(store.OpListHeld).Locks); n != 120 {
			t.Errorf("%d held locks", n)
		}
		if st := list(store.OpStats).Stats; st.Values != 60 || st.Locks != 120 {
			t.Errorf("%+v", st)
		}
		if sp := list(store.OpListSpaces).Spaces; len(sp) != 1 || sp[0].Values != 60 || sp[0].Space != shop {
			t.Errorf("%+v", sp)
		}
		if n := len(w.must("c", store.Command{Op: store.OpListLocks, Space: shop, Limit: 7}).Locks); n != 7 {
			t.Errorf("at most 7: %d", n)
		}
		seen := make(map[string]bool)
		for range 300 {
			r := w.must("a", store.Command{Op: store.OpRandomKey, Space: shop, Cursor: rand.Uint64()})
			if !r.Found || !slices.Contains(keys, r.Keys[0]) {
				t.Fatalf("a random key: %+v", r)
			}
			seen[w.hosts["a"].view().owner(store.ShardOfKey([]byte(r.Keys[0])))] = true
		}
		if len(seen) != 3 {
			t.Errorf("random keys are of %v", seen)
		}
		w.unanswered("c", lostQuestion)
		for _, op := range []store.Op{store.OpListHeld, store.OpStats, store.OpScan, store.OpRandomKey} {
			if _, err := w.do("a", store.Command{Op: op, Space: shop, Limit: 10}); !errors.Is(err, arbiter.ErrUnreachable) || !strings.Contains(err.Error(), "owner c") {
				t.Errorf("%d without an owner: %v", op, err)
			}
		}
	})
}

// TestAScanFindsWhatIsThereThroughout, once, while owners change and other keys come and go.
func TestAScanFindsWhatIsThereThroughout(t *testing.T) {
	for _, limit := range []int{1, 10, 1000} {
		inTown(t, []string{"a", "b", "c", "d"}, func(t *testing.T, w *town) {
			const n = 500
			w.fill(n)
			views := [][]string{{"a", "b"}, {"a", "b", "c", "d"}, {"d"}, {"b", "c", "d"}}
			found := make(map[string]int)
			steps := 0
			for cursor := uint64(0); ; steps++ {
				r := w.must(string(rune('a'+steps%4)), store.Command{Op: store.OpScan, Space: shop, Match: []byte("n"), Cursor: cursor, Limit: limit})
				for _, key := range r.Keys {
					found[key]++
				}
				if cursor = r.Cursor; cursor == 0 {
					break
				}
				if steps > 3*n {
					t.Fatal("the scan does not end")
				}
				w.must("a", set(fmt.Sprint("other", steps), "v"))
				if steps%3 == 0 {
					w.move(views[steps/3%len(views)]...)
				}
			}
			if len(found) != n {
				t.Errorf("in steps of %d it found %d of %d keys", limit, len(found), n)
			}
			for key, times := range found {
				if times != 1 {
					t.Errorf("in steps of %d it found %s %d times", limit, key, times)
				}
			}
			if limit == 10 && steps > 200 {
				t.Errorf("it took %d steps of about %d keys", steps, limit)
			}
		})
	}
}
