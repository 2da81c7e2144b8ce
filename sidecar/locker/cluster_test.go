package locker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// What a locker does when the owners of its locks are other hosts, which may not answer.

// unanswered lets commands of a kind be decided, or lost, without an answer.
func (h *house) unanswered(op store.Op, lost bool) {
	h.decide(func(ctx context.Context, c *store.Command) (*answer, bool) {
		if c.Op != op {
			return nil, false
		}
		if !lost {
			own := *c
			h.local.Do(ctx, &own)
		}
		return &answer{err: arbiter.ErrUnreachable}, true
	})
}

// TestAGrantThatNobodyHeardOfIsReleased with its request or client, however that ends.
func TestAGrantThatNobodyHeardOfIsReleased(t *testing.T) {
	ends := map[string]func(*Client, *store.Command, context.CancelFunc){
		"close":          func(c *Client, _ *store.Command, _ context.CancelFunc) { c.Close() },
		"request's end":  func(c *Client, _ *store.Command, cancel context.CancelFunc) { cancel(); c.EndRequest() },
		"own release":    func(c *Client, cmd *store.Command, _ context.CancelFunc) { c.Do(context.Background(), release(cmd)) },
		"already closed": nil,
	}
	for _, kind := range []func(string) *store.Command{session, func(s string) *store.Command { return lock(s, true) }} {
		for what, end := range ends {
			inside(t, nil, func(h *house) {
				c := h.l.NewClient()
				defer c.Close()
				ctx, cancel := context.WithCancel(h.t.Context())
				defer cancel()
				cmd := kind("a")
				h.unanswered(cmd.Op, false)
				if end == nil {
					c.Close()
				}
				if _, err := c.Do(ctx, cmd); !errors.Is(err, arbiter.ErrUnreachable) {
					t.Fatalf("%s: %v", what, err)
				}
				h.decide(nil)
				if end != nil {
					if h.isFree(kind("")) {
						t.Fatalf("%s: nothing was granted", what)
					}
					end(c, cmd, cancel)
				}
				if !h.isFree(kind("")) {
					t.Errorf("%s: the lock is still held", what)
				}
				if n := h.l.Held(); n != 0 {
					t.Errorf("%s: %d locks are counted as held", what, n)
				}
				asked := len(h.asks(store.OpSessionLapse, "a")) + len(h.asks(store.OpLockRelease, "a"))
				if c.Close(); len(h.asks(store.OpSessionLapse, "a"))+len(h.asks(store.OpLockRelease, "a")) != asked {
					t.Errorf("%s: what is known to be released is released again", what)
				}
			})
		}
	}
}

// TestADoubtedGrantIsNotRenewed, and one that a retry finds out about is.
func TestADoubtedGrantIsNotRenewed(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		h.unanswered(store.OpSessionOpen, false)
		c.Do(h.t.Context(), session("a"))
		h.decide(nil)
		time.Sleep(20 * time.Second)
		if n := len(h.asks(store.OpSessionRenew, "a")); n > 0 {
			t.Errorf("it was renewed %d times", n)
		}
		h.take(c, session("a"))
		time.Sleep(time.Minute)
		if h.isFree(session("")) || h.l.Held() != 1 {
			t.Errorf("after a retry it is not kept: %d are held", h.l.Held())
		}
	})
}

// TestTheReleaseOfADeadClientsLockIsTriedAgain until it is known, and at most while the lease may last.
func TestTheReleaseOfADeadClientsLockIsTriedAgain(t *testing.T) {
	for _, why := range []error{arbiter.ErrUnreachable, arbiter.ErrNotDecided, arbiter.ErrCannotKeep, arbiter.ErrNotKept} {
		for _, kind := range []func(string) *store.Command{session, func(s string) *store.Command { return lock(s, true) }} {
			silent := func(h *house, until time.Duration) {
				h.decide(func(ctx context.Context, c *store.Command) (*answer, bool) {
					if c.Op != store.OpSessionLapse && c.Op != store.OpLockRelease || h.now() >= until {
						return nil, false
					}
					<-ctx.Done()
					return &answer{err: why}, true
				})
			}
			inside(t, nil, func(h *house) {
				c := h.l.NewClient()
				h.take(c, kind("a"))
				silent(h, 10*time.Second)
				if c.Close(); h.now() > firstRelease {
					t.Errorf("the end of the client took %v", h.now())
				}
				time.Sleep(17*time.Second - h.now())
				if !h.isFree(kind("")) {
					t.Error("it is still held")
				}
			})
			inside(t, nil, func(h *house) {
				c := h.l.NewClient()
				h.take(c, kind("a"))
				silent(h, time.Hour)
				c.Close()
				time.Sleep(5 * time.Minute)
				asks := append(h.asks(store.OpSessionLapse, "a"), h.asks(store.OpLockRelease, "a")...)
				if last := asks[len(asks)-1]; len(asks) < 5 || last > 32*time.Second {
					t.Errorf("asked %d times, at last at %v", len(asks), last)
				}
			})
			inside(t, nil, func(h *house) {
				c := h.l.NewClient()
				h.take(c, kind("a"))
				silent(h, time.Hour)
				c.Close()
				h.l.Drain()
				time.Sleep(time.Minute)
				if n := len(h.asks(store.OpSessionLapse, "a")) + len(h.asks(store.OpLockRelease, "a")); n > 2 {
					t.Errorf("a daemon that stops went on and asked %d times", n)
				}
			})
		}
	}
}

// TestASilentOwnerDelaysNoOthersLocks: neither their renewals nor their releases.
func TestASilentOwnerDelaysNoOthersLocks(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		h.take(c, session("a"))
		h.take(c, lock("b", true))
		h.decide(func(ctx context.Context, cmd *store.Command) (*answer, bool) {
			if cmd.Op == store.OpLockRenew {
				return nil, false
			}
			<-ctx.Done()
			return &answer{err: arbiter.ErrUnreachable}, true
		})
		time.Sleep(45 * time.Second)
		want := []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second, 40 * time.Second}
		if got := h.asks(store.OpLockRenew, "b"); !slices.Equal(got, want) {
			t.Errorf("the other lock was renewed at %v, want %v", got, want)
		}
		closed := make(chan bool)
		go func() {
			c.Close()
			close(closed)
		}()
		synctest.Wait()
		for op, token := range map[store.Op]string{store.OpSessionLapse: "a", store.OpLockRelease: "b"} {
			if got := h.asks(op, token); len(got) != 1 || got[0] != 45*time.Second {
				t.Errorf("the release of %s was asked for at %v", token, got)
			}
		}
		<-closed
		time.Sleep(time.Minute) // until nobody tries any more
	})
}

// TestALockThatNobodyCanDecideIsWaitedFor, as long as the client would wait.
func TestALockThatNobodyCanDecideIsWaitedFor(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		h.decide(func(ctx context.Context, cmd *store.Command) (*answer, bool) {
			return &answer{err: arbiter.ErrNotDecided}, h.now() < 3*time.Second
		})
		if e := <-h.wait(c, session("a"), 30*time.Second); e.err != nil || !e.r.Locked || e.at < 3*time.Second || e.at > 3*time.Second+maxBackoff {
			t.Errorf("%+v", e)
		}
		h.decide(func(ctx context.Context, cmd *store.Command) (*answer, bool) {
			return &answer{err: arbiter.ErrNotDecided}, true
		})
		began := h.now()
		if e := <-h.wait(c, lock("b", true), 5*time.Second); !errors.Is(e.err, arbiter.ErrNotDecided) || e.at-began != 5*time.Second {
			t.Errorf("%+v", e)
		}
		h.decide(nil)
	})
}

// TestWhatHappensElsewhereIsSeen: at once when somebody tells, else at the next look.
func TestWhatHappensElsewhereIsSeen(t *testing.T) {
	for what, w := range map[string]struct {
		tell func(*Locker)
		at   time.Duration
	}{
		"told":            {func(l *Locker) { l.Wake(space, false, "k") }, 1500 * time.Millisecond},
		"told of a flush": {func(l *Locker) { l.Wake(space, false, "") }, 1500 * time.Millisecond},
		"told of others": {func(l *Locker) {
			l.Wake(space, false, "other")
			l.Wake(space, true, "k")
			l.Wake(store.Space{}, false, "k")
		}, 2 * time.Second},
		"not told": {func(*Locker) {}, 2 * time.Second},
	} {
		inside(t, func(c *Config) { c.LookAgain = time.Second }, func(h *house) {
			c := h.l.NewClient()
			defer c.Close()
			watch := h.watch(c, "k", time.Minute)
			time.Sleep(1500 * time.Millisecond)
			set := &store.Command{Op: store.OpSet, Space: space, Key: []byte("k"), Value: []byte("v")}
			if _, err := h.local.Do(h.t.Context(), set); err != nil {
				t.Fatal(err)
			}
			w.tell(h.l)
			if e := <-watch; !e.changed || string(e.r.Value) != "v" || e.at != w.at {
				t.Errorf("%s: %+v, want at %v", what, e, w.at)
			}
		})
	}
}

// TestAReleaseElsewhereWakesTheHead of the queue here.
func TestAReleaseElsewhereWakesTheHead(t *testing.T) {
	inside(t, nil, func(h *house) {
		c, other := h.l.NewClient(), h.l.NewClient()
		defer c.Close()
		defer other.Close()
		held := session("elsewhere")
		if r, err := h.local.Do(h.t.Context(), held); err != nil || !r.Locked {
			t.Fatal(r, err)
		}
		first, second := h.wait(c, session("a"), time.Minute), h.wait(other, session("b"), time.Minute)
		time.Sleep(1234 * time.Millisecond) // between two looks
		synctest.Wait()
		if _, err := h.local.Do(h.t.Context(), release(held)); err != nil {
			t.Fatal(err)
		}
		h.l.Wake(held.Space, true, string(held.Key))
		if e := <-first; e.err != nil || !e.r.Locked || e.at != 1234*time.Millisecond {
			t.Errorf("%+v", e)
		}
		h.still(second, "the second of the queue")
	})
}
