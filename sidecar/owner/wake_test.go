package owner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// waiter is who waits on a host for a lock, as locker does: it asks when it is woken and when a back-off is over.
type waiter struct {
	wake    chan struct{}
	backoff time.Duration
}

// wait waits for the lock and returns when it was granted.
func (h *resident) wait(w *waiter, c store.Command) time.Time {
	for {
		again := c
		r, err := h.arb.Do(context.Background(), &again)
		if err != nil {
			h.town.t.Errorf("%s waits: %v", h.name, err)
		}
		if err != nil || r.Status == store.OK {
			return time.Now()
		}
		select {
		case <-w.wake:
		case <-time.After(w.backoff):
		}
	}
}

// waits has the host's wake-ups delivered to a waiter, which is returned.
func (h *resident) waits(n name, backoff time.Duration) *waiter {
	w := &waiter{wake: make(chan struct{}, 1), backoff: backoff}
	h.arb.OnWake(func(space store.Space, session bool, key string) {
		if (name{space, session, key}) == n || key == "" && space == n.space && !session {
			select {
			case w.wake <- struct{}{}:
			default:
			}
		}
	})
	return w
}

// TestAReleaseWakesThoseWhoWaitOnOtherHosts in a few hops, whoever owns the lock; a lost wake-up costs one back-off.
func TestAReleaseWakesThoseWhoWaitOnOtherHosts(t *testing.T) {
	const backoff = 100 * time.Millisecond
	for _, owner := range three {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("owner %s, lost %t", owner, lost), func(t *testing.T) {
				inTown(t, three, func(t *testing.T, w *town) {
					key := w.keyOf(owner, 0)
					if lost {
						w.messages(func(_, _ string, kind byte) fate {
							if kind == kindWake {
								return lostQuestion
							}
							return delivered
						})
					}
					for what, ends := range map[string]struct{ begin, end, wait store.Command }{
						"a named lock": {acquire(key, "t"), release(key, "t"), acquire(key, "u")},
						"a session": {open(key, "t"), store.Command{
							Op: store.OpSessionCommit, Space: shop, Key: key, Token: []byte("t"), Fence: 1 << 60, Value: []byte("d"), TTL: 1000, Release: true,
						}, open(key, "u")},
					} {
						begun := w.must("a", ends.begin)
						if ends.end.Fence != 0 {
							ends.end.Fence = begun.Fence
						}
						b := w.hosts["b"]
						waiter := b.waits(nameOf(&ends.wait), backoff)
						granted := make(chan time.Time)
						go func() { granted <- b.wait(waiter, ends.wait) }()
						time.Sleep(1010 * time.Millisecond)
						began := time.Now()
						if r := w.must("a", ends.end); !r.Done {
							t.Fatalf("%s: the end: %+v", what, r)
						}
						took := (<-granted).Sub(began)
						// What is decided on the waiter's own host needs no message, and can neither be lost.
						if limit := 6 * hop; (!lost || owner == "b") && took > limit || took > backoff+limit {
							t.Errorf("%s: the waiter was granted it after %v", what, took)
						}
						w.must("b", store.Command{Op: store.OpLockForce, Space: shop, Key: key})
					}
				})
			})
		}
	}
}

// woken notes every wake-up of a host.
type woken struct {
	mu    sync.Mutex
	names []name
}

func (h *resident) listen() *woken {
	w := &woken{}
	h.arb.OnWake(func(space store.Space, session bool, key string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.names = append(w.names, name{space, session, key})
	})
	return w
}

func (w *woken) take() []name {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := w.names
	w.names = nil
	return names
}

// TestChangesWakeThoseWhoWatch on other hosts, once, and no others.
func TestChangesWakeThoseWhoWatch(t *testing.T) {
	inTown(t, three, func(t *testing.T, w *town) {
		watched, moved := w.keyOf("c", 0), w.keyOf("c", 1)
		b := w.hosts["b"].listen()
		quiet := w.hosts["a"].listen()
		for what, c := range map[string]store.Command{
			"a write":      set(string(watched), "v"),
			"an increment": {Op: store.OpIncr, Space: shop, Key: watched, Delta: 1},
			"a removal":    {Op: store.OpDel, Space: shop, Key: watched},
			"a batch":      batch(set(string(watched), "v"), set(string(moved), "v")),
			"a rename":     {Op: store.OpRename, Space: shop, Key: watched, NewKey: moved},
			"a flush":      {Op: store.OpFlush, Space: shop},
		} {
			w.must("b", store.Command{Op: store.OpVersion, Space: shop, Key: watched})
			w.must("a", set(string(watched), "1")) // wakes
			time.Sleep(3 * hop)
			if got := b.take(); !slices.Equal(got, []name{{shop, false, string(watched)}}) {
				t.Errorf("before %s: %v", what, got)
			}
			w.must("a", set(string(watched), "1")) // nobody asked again
			time.Sleep(3 * hop)
			if got := b.take(); len(got) > 0 {
				t.Errorf("nobody watches, %v are woken", got)
			}
			w.must("b", store.Command{Op: store.OpVersion, Space: shop, Key: watched})
			w.must("a", c)
			time.Sleep(3 * hop)
			// A flush also wakes by what b itself owns and was asked to flush.
			if got := b.take(); !slices.Contains(got, name{shop, false, string(watched)}) {
				t.Errorf("%s woke %v", what, got)
			}
			w.must("b", store.Command{Op: store.OpVersion, Space: shop, Key: watched})
			w.must("a", store.Command{Op: store.OpSet, Space: store.Space{Tenant: "other"}, Key: watched, Value: []byte("v")})
			w.must("a", store.Command{Op: store.OpGet, Space: shop, Key: watched})
			time.Sleep(3 * hop)
			if got := b.take(); len(got) > 0 {
				t.Errorf("what is no change woke %v", got)
			}
		}
		if got := quiet.take(); len(got) > 0 {
			t.Errorf("who made the changes is told of %v", got)
		}
	})
}

// TestWhoWaitsIsForgotten after a while, and only so many are remembered.
func TestWhoWaitsIsForgotten(t *testing.T) {
	inTown(t, three, func(t *testing.T, w *town) {
		c := w.hosts["c"].arb
		b := w.hosts["b"].listen()
		key := w.keyOf("c", 0)
		w.must("b", store.Command{Op: store.OpVersion, Space: shop, Key: key})
		time.Sleep(interest + time.Millisecond)
		w.must("b", store.Command{Op: store.OpVersion, Space: shop, Key: w.keyOf("c", 1)})
		w.must("a", set(string(key), "v"))
		time.Sleep(3 * hop)
		if got := b.take(); len(got) > 0 {
			t.Errorf("after %v it is told of %v", interest, got)
		}
		for i := range mostNames + 1000 {
			c.waking.remember(name{space: shop, key: fmt.Sprint(i)}, "b", time.Now().UnixMilli())
		}
		if n := len(c.waking.waits); n > mostNames {
			t.Errorf("%d names are remembered", n)
		}
		time.Sleep(interest + time.Millisecond)
		w.must("b", store.Command{Op: store.OpVersion, Space: shop, Key: key})
		if n := len(c.waking.waits); n != 1 {
			t.Errorf("%d names are remembered when their time is over", n)
		}
	})
}

// TestAHostThatTakesNoWakeUpsDelaysNobody: they are few at a time, and nothing waits for them.
func TestAHostThatTakesNoWakeUpsDelaysNobody(t *testing.T) {
	inTown(t, three, func(t *testing.T, w *town) {
		h := w.hosts["c"]
		sent := 0
		w.messages(func(_, to string, kind byte) fate {
			if kind == kindWake && to == "b" {
				sent++
				return lostQuestion
			}
			return delivered
		})
		const n = mostNotices + 100
		for i := range n {
			key := w.keyOf("c", 0)
			w.must("b", store.Command{Op: store.OpVersion, Space: shop, Key: key})
			began := time.Now()
			if _, err := h.arb.Do(t.Context(), &store.Command{Op: store.OpSet, Space: shop, Key: key, Value: fmt.Append(nil, i)}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 0 {
				t.Fatalf("a change took %v", took)
			}
		}
		synctest.Wait()
		if sent != mostNotices { // all of them are still on their way
			t.Errorf("%d were sent", sent)
		}
	})
}
