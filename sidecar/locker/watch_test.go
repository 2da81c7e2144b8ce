package locker

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// seen is how a watch ended, and when.
type seen struct {
	r       store.Result
	changed bool
	err     error
	at      time.Duration
}

// watchOnce watches a key and needs what it saw no more.
func watchOnce(ctx context.Context, c *Client, key string, known uint64, timeout time.Duration) (r store.Result, changed bool, err error) {
	r, done, err := c.Watch(ctx, versionOf(key), known, timeout)
	if done != nil {
		done()
	}
	return r, done != nil, err
}

func versionOf(key string) *store.Command {
	return &store.Command{Op: store.OpVersion, Space: space, Key: []byte(key)}
}

// version returns the key's version now.
func (h *house) version(key string) uint64 {
	h.t.Helper()
	r, err := h.local.Do(h.t.Context(), versionOf(key))
	if err != nil {
		h.t.Fatal(err)
	}
	return r.Version
}

// watch watches a key from its version now on, in a goroutine of its own, and has begun when it returns.
func (h *house) watch(c *Client, key string, timeout time.Duration) <-chan seen {
	done := make(chan seen, 1)
	known := h.version(key)
	go func() {
		r, changed, err := watchOnce(context.Background(), c, key, known, timeout)
		done <- seen{r, changed, err, h.now()}
	}()
	synctest.Wait()
	return done
}

// set sets a key through the locker, as clients do.
func (h *house) set(c *Client, key, value string, ttl int64) {
	h.t.Helper()
	cmd := &store.Command{Op: store.OpSet, Space: space, Key: []byte(key), Value: []byte(value), TTL: ttl}
	if r, err := c.Do(h.t.Context(), cmd); err != nil || !r.Done {
		h.t.Fatalf("set: %+v, %v", r, err)
	}
}

func TestWatchAnswersAtOnceWhenTheVersionIsAnother(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		for _, known := range []uint64{0, 5, math.MaxInt64} {
			r, changed, err := watchOnce(h.t.Context(), c, "k", known, time.Minute)
			if err != nil || !changed || r.Found || r.Version == 0 || r.Version == known {
				t.Errorf("of a missing key, known %d: %+v, %v, %v", known, r, changed, err)
			}
		}
		h.set(c, "k", "v", 0)
		r, changed, err := watchOnce(h.t.Context(), c, "k", 1, time.Minute)
		if err != nil || !changed || string(r.Value) != "v" {
			t.Errorf("%+v, %v, %v", r, changed, err)
		}
		h.at(0)
	})
}

// TestWatchesOfAClientLookOneAfterTheOther, so that the results of many do not come together, and a turn that lasts
// keeps nobody from what ends a watch otherwise.
func TestWatchesOfAClientLookOneAfterTheOther(t *testing.T) {
	inside(t, nil, func(h *house) {
		c, other := h.l.NewClient(), h.l.NewClient()
		defer other.Close()
		known := h.version("k")
		var dones []func()
		var timeUps, gone int
		ended := make(chan func()) // of the watches, for this one to do
		begin := func(timeout time.Duration) {
			go func() {
				_, done, err := c.Watch(context.Background(), versionOf("k"), known, timeout)
				ended <- func() {
					switch {
					case err == ErrClosed:
						gone++
					case done == nil:
						timeUps++
					default:
						dones = append(dones, done)
					}
				}
			}()
		}
		oneEnds := func() {
			t.Helper()
			(<-ended)()
			synctest.Wait()
			select {
			case <-ended:
				t.Fatal("another watch has ended")
			default:
			}
		}
		for range 5 {
			begin(time.Minute)
		}
		synctest.Wait()
		h.set(other, "k", "v", 0)
		oneEnds()
		if r, done, err := other.Watch(h.t.Context(), versionOf("k"), known, time.Minute); err != nil || done == nil || string(r.Value) != "v" {
			t.Errorf("another client's: %+v, %v", r, err)
		}
		begin(time.Second)
		oneEnds()
		if len(dones) != 1 || timeUps != 1 {
			t.Fatalf("%d looked and %d had no more time, want one of each", len(dones), timeUps)
		}
		h.at(time.Second)
		dones[0]()
		oneEnds()
		if len(dones) != 2 {
			t.Errorf("%d looked after the first turn, want 2", len(dones))
		}
		c.Close()
		for range 3 {
			(<-ended)()
		}
		if gone != 3 {
			t.Errorf("%d ended with the client, want the other 3", gone)
		}
	})
}

func TestWatchWakes(t *testing.T) {
	key := func(op store.Op, change func(*store.Command)) func(*house, *Client) {
		return func(h *house, c *Client) {
			cmd := &store.Command{Op: op, Space: space, Key: []byte("k"), Value: []byte("1"), Limit: 100}
			if change != nil {
				change(cmd)
			}
			if _, err := c.Do(h.t.Context(), cmd); err != nil {
				h.t.Fatal(err)
			}
		}
	}
	for what, w := range map[string]struct {
		do    func(*house, *Client)
		value string // afterwards; "": missing
		at    time.Duration
	}{
		"a write":               {key(store.OpSet, nil), "1", 0},
		"an increment":          {key(store.OpIncr, func(c *store.Command) { c.Delta = 4 }), "9", 0},
		"an append":             {key(store.OpAppend, nil), "51", 0},
		"a deletion":            {key(store.OpDel, nil), "", 0},
		"a getdel":              {key(store.OpGetDel, nil), "", 0},
		"a flush":               {key(store.OpFlush, nil), "", 0},
		"its expiry":            {func(*house, *Client) {}, "", 20 * time.Second},
		"an expiry made sooner": {key(store.OpExpire, func(c *store.Command) { c.TTL = 7000 }), "", 7 * time.Second},
		"a batch": {func(h *house, c *Client) {
			batch := &store.Command{Op: store.OpBatch, Space: space, Batch: []store.Command{
				{Op: store.OpSet, Space: space, Key: []byte("other"), Value: []byte("x")},
				{Op: store.OpSet, Space: space, Key: []byte("k"), Value: []byte("2")},
			}}
			if _, err := c.Do(h.t.Context(), batch); err != nil {
				h.t.Fatal(err)
			}
		}, "2", 0},
		"a rename away": {key(store.OpRename, func(c *store.Command) { c.NewKey = []byte("elsewhere") }), "", 0},
	} {
		t.Run(what, func(t *testing.T) {
			inside(t, nil, func(h *house) {
				c, other := h.l.NewClient(), h.l.NewClient()
				defer c.Close()
				defer other.Close()
				h.set(c, "k", "5", 20_000)
				before := h.version("k")
				one, two := h.watch(c, "k", time.Minute), h.watch(other, "k", time.Minute)
				w.do(h, other)
				for _, ch := range []<-chan seen{one, two} {
					e := <-ch
					if e.err != nil || !e.changed || e.at != w.at || string(e.r.Value) != w.value || e.r.Found != (w.value != "") || e.r.Version <= before {
						t.Errorf("%+v, want %q at %v with a version above %d", e, w.value, w.at, before)
					}
				}
				if h.l.watching.Load() != 0 || len(h.l.watches) != 0 {
					t.Errorf("%d watch, %d keys", h.l.watching.Load(), len(h.l.watches))
				}
			})
		})
	}
}

func TestWatchOfAMissingKeyWakesWhenItIsWritten(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		w := h.watch(c, "k", time.Minute)
		time.Sleep(3 * time.Second)
		h.set(c, "k", "v", 0)
		if e := <-w; !e.changed || string(e.r.Value) != "v" || e.at != 3*time.Second {
			t.Errorf("%+v", e)
		}
	})
}

func TestWatchDoesNotWakeForOtherThings(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		h.set(c, "k", "v", 0)
		w := h.watch(c, "k", time.Minute)
		do := func(cmd store.Command) {
			cmd.Key = []byte("k")
			if cmd.Space == (store.Space{}) {
				cmd.Space = space
			}
			if _, err := c.Do(h.t.Context(), &cmd); err != nil {
				h.t.Fatal(err)
			}
			synctest.Wait()
		}
		do(store.Command{Op: store.OpExpire, TTL: 50_000}) // a change of the expiry alone
		do(store.Command{Op: store.OpExpire})
		do(store.Command{Op: store.OpGet})
		do(store.Command{Op: store.OpSet, If: store.IfAbsent})
		do(store.Command{Op: store.OpDel, If: store.IfEqual, Match: []byte("w")})
		do(store.Command{Op: store.OpIncr, Delta: 1}) // refused: not a number
		do(store.Command{Op: store.OpSet, Space: store.Space{Tenant: "default", Bucket: "other"}})
		do(store.Command{Op: store.OpFlush, Space: store.Space{Tenant: "other"}})
		do(store.Command{Op: store.OpLockAcquire, Token: []byte("t")})
		h.set(c, "other", "v", 0)
		if e := <-w; e.err != nil || e.changed || e.at != time.Minute {
			t.Errorf("%+v, want that the time is up", e)
		}
	})
}

func TestWatchEndsWithItsClientAndRequest(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		w := h.watch(c, "k", time.Minute)
		c.Close()
		if e := <-w; !errors.Is(e.err, ErrClosed) {
			t.Errorf("when its client closes: %+v", e)
		}
		other := h.l.NewClient()
		defer other.Close()
		for _, limit := range []time.Duration{0, time.Second} { // cancelled, or its own time is up: never "unchanged"
			ctx, cancel := context.WithCancel(h.t.Context())
			if limit > 0 {
				ctx, cancel = context.WithTimeout(h.t.Context(), limit)
			} else {
				cancel()
			}
			_, changed, err := watchOnce(ctx, other, "k", h.version("k"), time.Minute)
			if err == nil || !errors.Is(err, ctx.Err()) || changed {
				t.Errorf("when its context ends: %v, %v", changed, err)
			}
			cancel()
		}
		if h.l.watching.Load() != 0 || len(h.l.watches) != 0 {
			t.Errorf("%d watch, %d keys", h.l.watching.Load(), len(h.l.watches))
		}
	})
}

func TestWatchOfAValueThatLivesForAgesDoesNotSpin(t *testing.T) {
	for _, ttl := range []int64{1 << 62, math.MaxInt64, math.MaxInt64 / 1_000_000 * 2} {
		inside(t, nil, func(h *house) {
			c := h.l.NewClient()
			defer c.Close()
			h.set(c, "k", "v", ttl)
			if e := <-h.watch(c, "k", 5*time.Second); e.changed || e.err != nil || e.at != 5*time.Second {
				t.Errorf("%+v", e)
			}
			if n := len(h.asks(store.OpVersion, "")); n > 3 {
				t.Errorf("with a ttl of %d ms the watcher asked %d times", ttl, n)
			}
		})
	}
}

func TestWatchNeverMissesAChange(t *testing.T) {
	// Writers count up, the watcher follows: it may skip numbers, but must see the last one.
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		const last = 300
		for range 3 {
			go func() {
				for range last / 3 {
					c.Do(h.t.Context(), &store.Command{Op: store.OpIncr, Space: space, Key: []byte("k"), Delta: 1})
				}
			}()
		}
		var known uint64
		for {
			r, changed, err := watchOnce(h.t.Context(), c, "k", known, time.Second)
			if err != nil || !changed {
				t.Fatalf("the watcher hung at version %d: %v, %v", known, changed, err)
			}
			known = r.Version
			if string(r.Value) == "300" {
				return
			}
		}
	})
}
