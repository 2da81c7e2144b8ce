package owner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// put writes a session without a lock.
func (w *world) put(at *host, key, value string) error {
	r, err := w.do(context.Background(), at, store.Command{
		Op: store.OpSessionCommit, Space: space, Key: []byte(key), Value: []byte(value), TTL: time.Hour.Milliseconds(), Fence: 0,
	})
	if err == nil && !r.Done {
		return fmt.Errorf("refused: %v", r.Reason)
	}
	return err
}

// get reads a session without a lock.
func (w *world) get(at *host, key string) (string, error) {
	r, err := w.do(context.Background(), at, store.Command{Op: store.OpSessionOpen, Space: space, Key: []byte(key)})
	return string(r.Value), err
}

// fill writes n sessions, in all shards.
func (w *world) fill(n int) {
	for i := range n {
		if err := w.put(w.hosts[i%2], fmt.Sprint(i), fmt.Sprint("value ", i)); err != nil {
			w.t.Fatalf("session %d: %v", i, err)
		}
	}
}

// full checks that they are there.
func (w *world) full(at *host, n int) {
	w.t.Helper()
	for i := range n {
		if v, err := w.get(at, fmt.Sprint(i)); err != nil || v != fmt.Sprint("value ", i) {
			w.t.Fatalf("session %d is %q, %v", i, v, err)
		}
	}
}

// inMemory has nothing on disk.
func inMemory(t *testing.T, n int, f func(*testing.T, *world)) {
	synctest.Test(t, func(t *testing.T) {
		var w *world
		w = newWorld(t, n, 1, func(c *Config) {
			c.faults.degraded = func(context.Context) { w.count("degraded") }
		})
		for _, h := range w.hosts {
			h.journal = nil
			h.start()
		}
		defer w.end()
		if w.settle(30 * time.Second) {
			f(t, w)
		}
	})
}

func TestAcknowledgedMeansKeptWhenAHostDies(t *testing.T) {
	for victim := range 3 {
		inMemory(t, 3, func(t *testing.T, w *world) {
			w.fill(600)
			w.hosts[victim].kill()
			died := time.Now()
			w.settle(30 * time.Second)
			t.Logf("all was served again after %v", time.Since(died))
			if time.Since(died) > 10*time.Second {
				t.Errorf("it took %v until all was served again", time.Since(died))
			}
			w.full(w.hosts[(victim+1)%3], 600)
			if n := w.events["degraded"]; n > 0 {
				t.Errorf("%d were acknowledged without a copy", n)
			}
		})
	}
}

func TestAllComeBackFromDisk(t *testing.T) {
	inWorld(t, 3, 1, nil, func(t *testing.T, w *world) {
		w.fill(600)
		for _, h := range w.hosts {
			h.kill()
		}
		for _, h := range w.hosts {
			h.start()
		}
		w.settle(30 * time.Second)
		w.full(w.hosts[0], 600)
	})
}

// visitors asks all the time, for all shards of the hosts that are not the victim, and returns the longest time without an answer and the errors.
func (w *world) visitors(stop <-chan struct{}, spare func(shard int) bool) (longest time.Duration, errs []error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 64 {
		key := fmt.Sprint(i)
		if !spare(store.ShardOfKey([]byte(key))) {
			continue
		}
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				began := time.Now()
				_, err := w.get(w.hosts[0], key)
				mu.Lock()
				longest = max(longest, time.Since(began))
				if err != nil {
					errs = append(errs, err)
				}
				mu.Unlock()
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	all.Wait()
	return longest, errs
}

func TestUnaffectedShardsGoOnWhenAHostDies(t *testing.T) {
	inMemory(t, 3, func(t *testing.T, w *world) {
		w.fill(64)
		v := w.hosts[0].seat.view()
		stop := make(chan struct{})
		go func() {
			time.Sleep(time.Second)
			w.hosts[2].kill()
			time.Sleep(10 * time.Second)
			w.hosts[2].start()
			time.Sleep(20 * time.Second)
			close(stop)
		}()
		longest, errs := w.visitors(stop, func(shard int) bool { return v.owner(shard) != "c" })
		t.Logf("the longest answer took %v", longest)
		if longest > 500*time.Millisecond || len(errs) > 0 {
			t.Errorf("the longest answer took %v; %d errors: %v", longest, len(errs), errs)
		}
	})
}

func TestNobodyNoticesThatAHostLeavesAndComesBack(t *testing.T) {
	inMemory(t, 3, func(t *testing.T, w *world) {
		w.fill(64)
		stop := make(chan struct{})
		go func() {
			time.Sleep(time.Second)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := w.hosts[2].seat.Leave(ctx); err != nil {
				t.Errorf("leave: %v", err)
			}
			w.hosts[2].kill()
			time.Sleep(5 * time.Second)
			w.hosts[2].start()
			w.settle(30 * time.Second)
			time.Sleep(time.Second)
			close(stop)
		}()
		longest, errs := w.visitors(stop, func(int) bool { return true })
		t.Logf("the longest answer took %v", longest)
		if longest > 500*time.Millisecond || len(errs) > 0 {
			t.Errorf("the longest answer took %v; %d errors: %v", longest, len(errs), errs)
		}
		w.full(w.hosts[0], 64)
	})
}

func TestNobodyNoticesThatAHostJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4, 1, nil)
		w.expect = 3
		fourth := w.hosts[3]
		fourth.absent = true
		for _, h := range w.hosts[:3] {
			h.start()
		}
		defer w.end()
		w.settle(30 * time.Second)
		w.fill(64)
		stop := make(chan struct{})
		go func() {
			time.Sleep(time.Second)
			w.mu.Lock()
			fourth.absent = false
			w.mu.Unlock()
			fourth.start()
			w.settle(30 * time.Second)
			time.Sleep(time.Second)
			close(stop)
		}()
		longest, errs := w.visitors(stop, func(int) bool { return true })
		if longest > 500*time.Millisecond || len(errs) > 0 {
			t.Errorf("the longest answer took %v; %d errors: %v", longest, len(errs), errs)
		}
		if n := fourth.seat.view().shardsOf(fourth.id); n < 32 {
			t.Errorf("it owns %d shards", n)
		}
		w.full(fourth, 64)
	})
}

func TestAPausedOwnerAcknowledgesNothing(t *testing.T) {
	for _, d := range []time.Duration{time.Second, 3 * time.Second, 7 * time.Second, 40 * time.Second} {
		inMemory(t, 3, func(t *testing.T, w *world) {
			w.fill(64)
			h := w.hosts[1]
			v := h.seat.view()
			key := ""
			for i := 0; key == "" || v.owner(store.ShardOfKey([]byte(key))) != h.id; i++ {
				key = fmt.Sprint(i)
			}
			took := make(chan error, 1)
			w.mu.Lock()
			w.pauses = 1 // every command is stopped between the check and the deed, for at most 6 s
			w.mu.Unlock()
			go func() { took <- w.put(h, key, "stale") }()
			time.Sleep(time.Millisecond)
			w.mu.Lock()
			w.pauses = 0
			w.mu.Unlock()
			h.halt()
			time.Sleep(d)
			h.goOn()
			err := <-took
			w.settle(30 * time.Second)
			got, gotErr := w.get(w.hosts[0], key)
			if gotErr != nil || err == nil && got != "stale" {
				t.Errorf("%v: its write was answered %v, then it is %q, %v", d, err, got, gotErr)
			}
			if d > 8*time.Second && !errors.Is(err, arbiter.ErrUnreachable) {
				t.Errorf("%v: a write over a stop was answered %v", d, err)
			}
		})
	}
}

// cutBetween cuts two hosts off from each other, or connects them again.
func (w *world) cutBetween(a, b *host, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[[2]string{a.id, b.id}], w.cut[[2]string{b.id, a.id}] = is, is
}

// cutOff cuts a host off, or connects it again.
func (w *world) cutOff(h *host, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.hosts {
		w.cut[[2]string{o.id, h.id}], w.cut[[2]string{h.id, o.id}] = is, is
	}
}

func TestAMinorityRefuses(t *testing.T) {
	inMemory(t, 3, func(t *testing.T, w *world) {
		w.fill(64)
		w.cutOff(w.hosts[0], true)
		time.Sleep(3 * time.Second)
		s := w.hosts[0].seat
		for i := range 64 {
			c := &store.Command{Op: store.OpSessionOpen, Space: space, Key: []byte(fmt.Sprint(i))}
			if r, err := s.decide(t.Context(), s.view().id, c, store.ShardOfKey(c.Key)); !errors.Is(err, arbiter.ErrNotDecided) {
				t.Fatalf("a host alone answered %+v, %v", r, err)
			}
		}
		time.Sleep(5 * time.Second)
		w.full(w.hosts[1], 64)
		w.cutOff(w.hosts[0], false)
		w.settle(30 * time.Second)
		w.full(w.hosts[0], 64)
	})
}

// Owner and runner-up of some shards are cut off together: what they have is waited for, and the other shards are served.
func TestWhatOnlyCutOffHostsHaveIsWaitedFor(t *testing.T) {
	inMemory(t, 5, func(t *testing.T, w *world) {
		w.fill(100)
		v := w.hosts[2].seat.view()
		off := func(id string) bool { return id == w.hosts[0].id || id == w.hosts[1].id }
		for _, a := range w.hosts[:2] {
			for _, b := range w.hosts[2:] {
				w.cutBetween(a, b, true)
			}
		}
		time.Sleep(time.Minute) // and two seconds for each that is refused
		waiting := 0
		for i := range 100 {
			shard := store.ShardOfKey([]byte(fmt.Sprint(i)))
			value, err := w.get(w.hosts[2], fmt.Sprint(i))
			switch both := off(v.owner(shard)) && off(v.runnerUp(shard)); {
			case both && errors.Is(err, arbiter.ErrNotDecided):
				waiting++
			case both || err != nil || value != fmt.Sprint("value ", i):
				t.Errorf("session %d, which only hosts that are cut off have: %v: %q, %v", i, both, value, err)
			}
		}
		if waiting == 0 {
			t.Error("the two that are cut off were owner and runner-up of nothing")
		}
		for _, a := range w.hosts[:2] {
			for _, b := range w.hosts[2:] {
				w.cutBetween(a, b, false)
			}
		}
		w.settle(30 * time.Second)
		w.full(w.hosts[2], 100)
	})
}

// They do not come back: what is left is served, which is counted.
func TestWhatDeadHostsHadIsGivenUpInTheEnd(t *testing.T) {
	inMemory(t, 5, func(t *testing.T, w *world) {
		w.fill(300)
		w.hosts[0].kill()
		w.hosts[1].kill()
		time.Sleep(lostAfter + 10*time.Second)
		lost := 0
		for i := range 300 {
			switch value, err := w.get(w.hosts[2], fmt.Sprint(i)); {
			case err != nil:
				t.Errorf("session %d: %v", i, err)
			case value == "":
				lost++
			}
		}
		if lost == 0 {
			t.Error("the two that are dead were owner and runner-up of nothing")
		}
	})
}

// A host that was cut off has permission for a while, but who takes over will not have what it changes then.
func TestAHostThatIsCutOffAcknowledgesNoChange(t *testing.T) {
	inMemory(t, 3, func(t *testing.T, w *world) {
		w.fill(64)
		s := w.hosts[0].seat
		v := s.view()
		w.cutOff(w.hosts[0], true)
		// What was on its way when the cut came may still be answered.
		time.Sleep(w.delay)
		var writes sync.WaitGroup
		for i := range 64 {
			key := fmt.Sprint(i)
			if v.owner(store.ShardOfKey([]byte(key))) != s.self.ID {
				continue
			}
			c := &store.Command{Op: store.OpSessionCommit, Space: space, Key: []byte(key), Value: []byte("lost"), TTL: time.Hour.Milliseconds()}
			writes.Go(func() {
				if r, err := s.decide(context.Background(), v.id, c, store.ShardOfKey(c.Key)); !errors.Is(err, arbiter.ErrUnreachable) {
					t.Errorf("a host alone answered a write with %+v, %v", r, err)
				}
			})
		}
		writes.Wait()
		if n := w.events["degraded"]; n > 0 {
			t.Errorf("%d were acknowledged without a copy", n)
		}
		time.Sleep(5 * time.Second)
		w.full(w.hosts[1], 64)
		w.cutOff(w.hosts[0], false)
		w.settle(30 * time.Second)
		w.full(w.hosts[0], 64)
	})
}

func TestOneOfTwoServesAloneIfItShould(t *testing.T) {
	for _, serve := range []bool{false, true} {
		inWorld(t, 2, 1, func(c *Config) { c.ServeMinority = serve }, func(t *testing.T, w *world) {
			w.fill(64)
			w.hosts[1].kill()
			time.Sleep(8 * time.Second)
			if _, err := w.get(w.hosts[0], "1"); (err == nil) != serve {
				t.Errorf("minority serves: %v; alone it answered %v", serve, err)
			}
			if serve {
				w.full(w.hosts[0], 64)
			}
			w.hosts[1].start()
			w.settle(30 * time.Second)
			w.full(w.hosts[1], 64)
		})
	}
}

func TestAHostWhoseClockIsOffOwnsNothing(t *testing.T) {
	inWorld(t, 3, 1, nil, func(t *testing.T, w *world) {
		w.fill(64)
		w.hosts[0].adjust(1500)
		time.Sleep(5 * time.Second)
		v := w.hosts[1].seat.view()
		if n := v.shardsOf("a"); n > 0 || len(v.members) != 2 {
			t.Errorf("it owns %d shards in view %v", n, v)
		}
		w.full(w.hosts[1], 64)
	})
}

func TestALargeShardTravelsInPieces(t *testing.T) {
	inMemory(t, 3, func(t *testing.T, w *world) {
		big := strings.Repeat("x", 600<<10)
		var keys []string
		for i := 0; len(keys) < 40; i++ { // 24 MiB in one shard
			if key := fmt.Sprint("big ", i); store.ShardOfKey([]byte(key)) == 7 {
				keys = append(keys, key)
			}
		}
		for _, key := range keys {
			if err := w.put(w.hosts[0], key, big); err != nil {
				t.Fatal(err)
			}
		}
		for _, h := range w.hosts { // whoever has it, its copies move
			h.kill()
			w.settleAlive(t)
			h.start()
			w.settle(30 * time.Second)
		}
		for _, key := range keys {
			if v, err := w.get(w.hosts[0], key); err != nil || v != big {
				t.Fatalf("%s has %d bytes, %v", key, len(v), err)
			}
		}
		if w.largest > 3<<20 {
			t.Errorf("a message had %d bytes", w.largest)
		}
	})
}

// settleAlive waits until those that are alive have settled.
func (w *world) settleAlive(t *testing.T) {
	t.Helper()
	if !w.settle(30 * time.Second) {
		t.FailNow()
	}
}
