package owner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/cluster"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

var shop = store.Space{Tenant: "shop"}

func acquire(key []byte, token string) store.Command {
	return store.Command{Op: store.OpLockAcquire, Space: shop, Key: key, Token: []byte(token), Lease: 30_000}
}

func release(key []byte, token string) store.Command {
	return store.Command{Op: store.OpLockRelease, Space: shop, Key: key, Token: []byte(token)}
}

func open(key []byte, token string) store.Command {
	return store.Command{Op: store.OpSessionOpen, Space: shop, Key: key, Token: []byte(token), Lease: 30_000}
}

// bugs is what the specification warns of, as seen by three hosts' arbiters.
type bugs struct {
	winners      int  // of one lock
	staleRelease bool // by a token whose lock was forced and granted to another since, it answers that it released
	guessedGrant bool // although the owner cannot be reached
}

// seek looks for them. cut makes the owner of the last key unreachable.
func seek(t *testing.T, arbs []arbiter.Arbiter, far []byte, cut func()) (b bugs) {
	do := func(at int, c store.Command) store.Result {
		r, err := arbs[at].Do(t.Context(), &c)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for i := range arbs {
		if do(i, acquire([]byte("lock"), fmt.Sprint("token", i))).Status == store.OK {
			b.winners++
		}
	}
	do(0, acquire([]byte("forced"), "first"))
	do(1, store.Command{Op: store.OpLockForce, Space: shop, Key: []byte("forced")})
	if do(1, acquire([]byte("forced"), "second")).Status != store.OK {
		t.Fatal("a forced lock is not free")
	}
	b.staleRelease = do(0, release([]byte("forced"), "first")).Done
	cut()
	c := acquire(far, "t")
	r, err := arbs[0].Do(t.Context(), &c)
	b.guessedGrant = err == nil && r.Status == store.OK
	return b
}

// TestTheBugsOfLocalRoutingAreGone: they are seen when each host decides by itself, and only then.
func TestTheBugsOfLocalRoutingAreGone(t *testing.T) {
	inTown(t, three, func(t *testing.T, w *town) {
		far := w.keyOf("c", 0)
		if got := seek(t, locals(3), far, func() {}); got != (bugs{3, true, true}) {
			t.Errorf("without routing: %+v, which says that the test sees nothing", got)
		}
		cut := func() { w.unanswered("c", lostQuestion) }
		if got := seek(t, w.arbiters(three...), far, cut); got != (bugs{winners: 1}) {
			t.Errorf("with routing: %+v", got)
		}
	})
}

// TestOneOf32WinsOn4Hosts.
func TestOneOf32WinsOn4Hosts(t *testing.T) {
	inTown(t, []string{"a", "b", "c", "d"}, func(t *testing.T, w *town) {
		for n := range 20 {
			var won atomic.Int32
			var all sync.WaitGroup
			for i := range 32 {
				all.Go(func() {
					r, err := w.do(string(rune('a'+i%4)), acquire(fmt.Appendf(nil, "lock%d", n), fmt.Sprint(i)))
					if err != nil {
						t.Error(err)
					}
					if r.Status == store.OK {
						won.Add(1)
					}
				})
			}
			all.Wait()
			if won.Load() != 1 {
				t.Errorf("lock %d has %d winners", n, won.Load())
			}
		}
	})
}

// TestEveryHostSeesWhatAnyOtherWrote, at once, with the time of the decision.
func TestEveryHostSeesWhatAnyOtherWrote(t *testing.T) {
	inTown(t, three, func(t *testing.T, w *town) {
		for i := range 60 {
			at, elsewhere := three[i%3], three[(i+1)%3]
			key := fmt.Appendf(nil, "k%d", i)
			w.must(at, store.Command{Op: store.OpSet, Space: shop, Key: key, Value: key})
			if r := w.must(elsewhere, store.Command{Op: store.OpGet, Space: shop, Key: key}); !bytes.Equal(r.Value, key) {
				t.Errorf("%s at %s: %q", key, elsewhere, r.Value)
			}
		}
		time.Sleep(time.Hour)
		c := store.Command{Op: store.OpGet, Space: shop, Key: w.keyOf("b", 0)}
		if _, err := w.hosts["a"].arb.Do(t.Context(), &c); err != nil || c.Now != time.Now().Add(-hop).UnixMilli() {
			t.Errorf("decided at %d, it is %d now: %v", c.Now, time.Now().UnixMilli(), err)
		}
	})
}

// TestAnOwnerNeverForwards: asked for what is not its own it refuses, whatever the sender believes.
func TestAnOwnerNeverForwards(t *testing.T) {
	inTown(t, three, func(t *testing.T, w *town) {
		v := w.hosts["a"].view()
		c := acquire(w.keyOf("c", 0), "t")
		if _, err := w.hosts["a"].arb.try(t.Context(), v, "b", &c); !errors.Is(err, arbiter.ErrNotDecided) {
			t.Errorf("asked for another's key: %v", err)
		}
		own := acquire(w.keyOf("b", 0), "t")
		old := newView(v.id.Epoch-1, v.members)
		if _, err := w.hosts["a"].arb.try(t.Context(), old, "b", &own); !errors.Is(err, arbiter.ErrNotDecided) {
			t.Errorf("asked by an older view: %v", err)
		}
		if n := w.asked("c"); n != 0 {
			t.Errorf("the owner was asked %d times", n)
		}
	})
}

// TestWhatNobodyDecidesIsTriedAgain, as soon as the view changes, and for two seconds at most.
func TestWhatNobodyDecidesIsTriedAgain(t *testing.T) {
	for what, hinder := range map[string]func(w *town){
		"it may not decide":      func(w *town) { w.ill("c", notPermitted) },
		"it does not serve":      func(w *town) { w.ill("c", notServing) },
		"it cannot be connected": func(w *town) { w.unanswered("c", notSent) },
	} {
		t.Run(what, func(t *testing.T) {
			inTown(t, three, func(t *testing.T, w *town) {
				key := w.keyOf("c", 0)
				hinder(w)
				began := time.Now()
				_, err := w.do("a", acquire(key, "t"))
				if took := time.Since(began); !errors.Is(err, arbiter.ErrNotDecided) || errors.Is(err, arbiter.ErrUnreachable) || took < 1900*time.Millisecond || took > 2100*time.Millisecond {
					t.Errorf("%v after %v", err, took)
				}
				if !strings.Contains(err.Error(), "nothing was done") {
					t.Errorf("it does not say so: %v", err)
				}
				began = time.Now()
				go func() {
					time.Sleep(time.Second)
					w.move("a", "b")
				}()
				r, err := w.do("a", acquire(key, "t"))
				if took := time.Since(began); err != nil || r.Status != store.OK || took > time.Second+5*hop {
					t.Errorf("after another became the owner: %+v, %v after %v", r, err, took)
				}
			})
		})
	}
	inTown(t, three, func(t *testing.T, w *town) { // the caller may be in more of a hurry
		w.ill("c", notServing)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		began := time.Now()
		c := acquire(w.keyOf("c", 0), "t")
		_, err := w.hosts["a"].arb.Do(ctx, &c)
		if took := time.Since(began); !errors.Is(err, arbiter.ErrNotDecided) || took > 310*time.Millisecond {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestAnOwnerThatKeepsNothingSaysWhatWasDone: before the change, nothing; behind it, nobody knows how long it lasts.
func TestAnOwnerThatKeepsNothingSaysWhatWasDone(t *testing.T) {
	for why, want := range map[error][]error{
		fmt.Errorf("%w: the disk is full", arbiter.ErrCannotKeep): {arbiter.ErrCannotKeep},
		fmt.Errorf("%w: the disk is full", arbiter.ErrNotKept):    {arbiter.ErrNotKept, arbiter.ErrUnreachable},
	} {
		inTown(t, three, func(t *testing.T, w *town) {
			w.failing("c", why)
			for _, at := range []string{"a", "c"} {
				_, err := w.do(at, store.Command{Op: store.OpIncr, Space: shop, Key: w.keyOf("c", 0), Delta: 1})
				for _, kind := range []error{arbiter.ErrCannotKeep, arbiter.ErrNotKept, arbiter.ErrUnreachable, arbiter.ErrNotDecided} {
					if errors.Is(err, kind) != slices.Contains(want, kind) {
						t.Errorf("%v at %s: %v", why, at, err)
					}
				}
				if err == nil || strings.Count(err.Error(), want[0].Error()) != 1 || !strings.Contains(err.Error(), "the disk is full") {
					t.Errorf("%v at %s: %v", why, at, err)
				}
			}
		})
	}
}

// TestWhatIsTooLargeForAMessageIsNotTriedAgain.
func TestWhatIsTooLargeForAMessageIsNotTriedAgain(t *testing.T) {
	inTown(t, three, func(t *testing.T, w *town) {
		w.unanswered("c", tooLarge)
		began := time.Now()
		for what, c := range map[string]store.Command{
			"one key": set(string(w.keyOf("c", 0)), "large"),
			"several": batch(set(string(w.keyOf("c", 0)), "large"), set(string(w.keyOf("c", 1)), "large")),
			"a part":  batch(get(string(w.keyOf("c", 0))), get(string(w.keyOf("b", 1)))),
		} {
			if _, err := w.do("a", c); err == nil || errors.Is(err, arbiter.ErrUnreachable) || !strings.Contains(err.Error(), cluster.ErrTooLarge.Error()) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if took := time.Since(began); took > 10*hop {
			t.Errorf("it took %v", took)
		}
	})
}

// TestAnOwnerWithoutMembersDecidesNothing: before the first view there is nobody to ask.
func TestAnOwnerWithoutMembersDecidesNothing(t *testing.T) {
	inTown(t, three, func(t *testing.T, w *town) {
		w.move()
		for _, c := range []store.Command{
			acquire([]byte("k"), "t"), {Op: store.OpFlush}, {Op: store.OpScan, Limit: 10}, {Op: store.OpStats},
			{Op: store.OpRename, Key: []byte("k"), NewKey: []byte("l")},
			{Op: store.OpBatch, Batch: []store.Command{{Op: store.OpSet, Key: []byte("k")}, {Op: store.OpSet, Key: []byte("l")}}},
		} {
			if _, err := w.do("a", c); !errors.Is(err, arbiter.ErrNotDecided) || errors.Is(err, arbiter.ErrUnreachable) {
				t.Errorf("%d: %v", c.Op, err)
			}
		}
	})
}

// TestALostAnswerIsUnknownOrHarmless: what a token makes harmless is asked again, and the rest is not.
func TestALostAnswerIsUnknownOrHarmless(t *testing.T) {
	inTown(t, three, func(t *testing.T, w *town) {
		once := func(how fate) {
			lost := false
			w.messages(func(_, to string, kind byte) fate {
				if to == "c" && kind == kindCommand && !lost {
					lost = true
					return how
				}
				return delivered
			})
		}
		for _, how := range []fate{lostQuestion, lostAnswer} {
			sid := w.keyOf("c", int(how))
			once(how)
			first := w.must("a", open(sid, "t"))
			if again := w.must("b", open(sid, "t")); !first.Locked || again.Fence != first.Fence {
				t.Errorf("%d: the same token was granted %d and %d", how, first.Fence, again.Fence)
			}
			once(how)
			commit := store.Command{
				Op: store.OpSessionCommit, Space: shop, Key: sid, Token: []byte("t"), Fence: first.Fence, Value: []byte("data"), TTL: 60_000, Release: true,
			}
			if r := w.must("a", commit); !r.Done {
				t.Errorf("%d: the write: %+v", how, r)
			}
			if r := w.must("b", open(sid, "u")); !r.Locked || string(r.Value) != "data" {
				t.Errorf("%d: the next one: %+v", how, r)
			}
			counter := append(sid, "counter"...)
			for w.hosts["a"].view().owner(store.ShardOfKey(counter)) != "c" {
				counter = append(counter, '.')
			}
			once(how)
			if r, err := w.do("a", store.Command{Op: store.OpIncr, Space: shop, Key: counter, Delta: 1}); !errors.Is(err, arbiter.ErrUnreachable) || errors.Is(err, arbiter.ErrNotDecided) {
				t.Errorf("%d: an increment: %+v, %v", how, r, err)
			}
			r := w.must("b", store.Command{Op: store.OpGet, Space: shop, Key: counter})
			if want := how == lostAnswer; r.Found != want || want && string(r.Value) != "1" {
				t.Errorf("%d: the counter is %q", how, r.Value)
			}
		}
	})
}

// TestALaterRefusalDoesNotSettleAnEarlierTry: the write was stored and somebody came since, or a grant is still on its way.
func TestALaterRefusalDoesNotSettleAnEarlierTry(t *testing.T) {
	inTown(t, three, func(t *testing.T, w *town) {
		sid, lock := w.keyOf("c", 0), w.keyOf("c", 1)
		grant := w.must("a", open(sid, "t"))
		tries := 0
		w.messages(func(from, to string, kind byte) fate { // the first try's answer is lost, and another host is quicker than the second
			if from == "a" && to == "c" && kind == kindCommand {
				if tries++; tries == 1 {
					return lostAnswer
				}
			}
			return delivered
		})
		done := make(chan error, 1)
		go func() {
			_, err := w.do("a", store.Command{
				Op: store.OpSessionCommit, Space: shop, Key: sid, Token: []byte("t"), Fence: grant.Fence, Value: []byte("data"), TTL: 60_000, Release: true,
			})
			done <- err
		}()
		time.Sleep(time.Second)
		if r := w.must("b", open(sid, "u")); !r.Locked || string(r.Value) != "data" {
			t.Fatalf("the write did not land: %+v", r)
		}
		if err := <-done; !errors.Is(err, arbiter.ErrUnreachable) {
			t.Errorf("a write that was stored: %v", err)
		}
		tries = 0
		go func() {
			r, err := w.do("a", acquire(lock, "t"))
			if err == nil {
				t.Errorf("the lock that may have been granted: %+v", r)
			}
			done <- err
		}()
		time.Sleep(time.Second)
		w.must("b", release(lock, "t"))
		w.must("b", acquire(lock, "u"))
		if err := <-done; !errors.Is(err, arbiter.ErrUnreachable) {
			t.Errorf("a lock that another has now: %v", err)
		}
	})
}

// TestAnUnknownGrantIsReleasedByItsToken: the owner granted and nobody heard of it.
func TestAnUnknownGrantIsReleasedByItsToken(t *testing.T) {
	inTown(t, three, func(t *testing.T, w *town) {
		sid := w.keyOf("c", 0)
		w.unanswered("c", lostAnswer)
		began := time.Now()
		if _, err := w.do("a", open(sid, "t")); !errors.Is(err, arbiter.ErrUnreachable) || errors.Is(err, arbiter.ErrNotDecided) {
			t.Fatalf("%v", err)
		}
		if took := time.Since(began); took > 4100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		w.messages(nil)
		if r := w.must("b", open(sid, "u")); r.Status != store.Busy {
			t.Fatalf("the grant did not land: %+v", r)
		}
		if r := w.must("a", store.Command{Op: store.OpSessionRelease, Space: shop, Key: sid, Token: []byte("t")}); !r.Done {
			t.Errorf("the release: %+v", r)
		}
		if r := w.must("b", open(sid, "u")); !r.Locked {
			t.Errorf("the next one: %+v", r)
		}
	})
}

// TestCopiesAreSweptLater than what is owned.
func TestCopiesAreSweptLater(t *testing.T) {
	inTown(t, three, func(t *testing.T, w *town) {
		key := w.keyOf("c", 0)
		set := store.Command{Op: store.OpSet, Space: shop, Key: key, Value: []byte("v"), TTL: 1000}
		for _, n := range three {
			c := set
			c.Now = time.Now().UnixMilli()
			w.hosts[n].store.Apply(&c)
		}
		has := func(name string) bool {
			if _, err := arbiter.Sweep(t.Context(), w.hosts[name].arb, 100); err != nil {
				t.Fatal(err)
			}
			return w.hosts[name].store.Apply(&store.Command{Op: store.OpStats}).Stats.Values == 1
		}
		time.Sleep(2 * time.Second)
		if has("c") || !has("a") {
			t.Errorf("its owner has it: %t, a copy: %t", has("c"), has("a"))
		}
		time.Sleep(sweepLag)
		if has("a") {
			t.Error("a copy stays")
		}
	})
}

// TestDoDoesNotKeepTheCommand: the caller's buffers are its own again when it returns, whatever is still on its way.
func TestDoDoesNotKeepTheCommand(t *testing.T) {
	inTown(t, three, func(t *testing.T, w *town) {
		w.messages(func(_, to string, _ byte) fate {
			if to == "c" {
				return lostAnswer
			}
			return delivered
		})
		key := bytes.Clone(w.keyOf("c", 0))
		c := store.Command{Op: store.OpSet, Space: shop, Key: key, Value: []byte("value")}
		if _, err := w.hosts["a"].arb.Do(t.Context(), &c); err == nil {
			t.Fatal("it was answered")
		}
		want := bytes.Clone(key)
		copy(key, "xxxxxxxx")
		copy(c.Value, "xxxxx")
		synctest.Wait()
		w.messages(nil)
		if r := w.must("a", store.Command{Op: store.OpGet, Space: shop, Key: want}); string(r.Value) != "value" {
			t.Errorf("%q is stored", r.Value)
		}
	})
}

// FuzzQuestions: whatever a peer sends, it is refused or answered, and nothing panics.
func FuzzQuestions(f *testing.F) {
	w := newTown(f, three...)
	h := w.hosts["b"]
	id := h.view().id
	for _, c := range []store.Command{
		acquire([]byte("k"), "t"), {Op: store.OpFlush}, {Op: store.OpBatch, Batch: []store.Command{{Op: store.OpGet, Key: []byte("k")}}}, {Op: store.OpSweep},
	} {
		f.Add(byte(kindCommand), store.AppendCommand(id.append(nil), &c))
	}
	f.Add(byte(kindWake), appendNames(nil, []name{{shop, true, "sid"}, {space: shop}}))
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		handle := h.handlers[kind]
		if handle == nil {
			return
		}
		if answer, err := handle(t.Context(), "a", body); err == nil && kind == kindCommand {
			var c store.Command
			if _, err := readAnswer(answer, &c); err != nil && !errors.Is(err, arbiter.ErrNotDecided) {
				t.Errorf("%q: %v", answer, err)
			}
		}
		var c store.Command
		_, err := readAnswer(body, &c)
		for _, known := range []error{arbiter.ErrNotDecided, arbiter.ErrUnreachable, arbiter.ErrCannotKeep} {
			if errors.Is(err, known) {
				return
			}
		}
		if err != nil {
			t.Errorf("as an answer: %v", err)
		}
	})
}
