package locker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// house is a locker over a real store, in a bubble with a time of its own. Every command that reaches the arbiter is noted.
type house struct {
	t     *testing.T
	l     *Locker
	local arbiter.Arbiter
	born  time.Time
	reg   *prometheus.Registry

	mu    sync.Mutex
	asked []asked                                               // guarded by mu
	log   bytes.Buffer                                          // guarded by mu
	hook  func(context.Context, *store.Command) (*answer, bool) // guarded by mu
}

// asked is one command and when it came.
type asked struct {
	op    store.Op
	token string
	at    time.Duration
}

// answer is what an arbiter answers.
type answer struct {
	r   store.Result
	err error
}

var space = store.Space{Tenant: "default"}

// inside runs a test in a bubble, with the usual settings but for what change does.
func inside(t *testing.T, change func(*Config), test func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &house{t: t, born: time.Now(), reg: prometheus.NewRegistry()}
		cfg := Config{
			Lease: 30 * time.Second, MaxHold: 10 * time.Minute, MaxWait: 5 * time.Minute, MaxWaiters: 64,
			Log: slog.New(slog.NewTextHandler(h, nil)), Metrics: NewMetrics(h.reg),
		}
		if change != nil {
			change(&cfg)
		}
		h.local = arbiter.NewLocal(store.New(store.Limits{}), func() int64 { return time.Now().UnixMilli() }, nil)
		h.l = New(h, cfg)
		test(h)
	})
}

// Write takes the log.
func (h *house) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.Write(b)
}

func (h *house) logged() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.String()
}

// counted returns what a counter shows.
func (h *house) counted(name string) float64 {
	h.t.Helper()
	families, err := h.reg.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	h.t.Fatalf("there is no metric %s", name)
	return 0
}

// Do is the locker's arbiter.
func (h *house) Do(ctx context.Context, c *store.Command) (store.Result, error) {
	h.mu.Lock()
	h.asked = append(h.asked, asked{c.Op, string(c.Token), h.now()})
	hook := h.hook
	h.mu.Unlock()
	if hook != nil {
		if a, decided := hook(ctx, c); decided {
			return a.r, a.err
		}
	}
	return h.local.Do(ctx, c)
}

// decide lets hook decide commands in the store's place, those of which it says so.
func (h *house) decide(hook func(context.Context, *store.Command) (*answer, bool)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hook = hook
}

// now is the time since the bubble began.
func (h *house) now() time.Duration { return time.Since(h.born) }

// asks returns when the arbiter was asked op for token.
func (h *house) asks(op store.Op, token string) (times []time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.asked {
		if a.op == op && a.token == token {
			times = append(times, a.at)
		}
	}
	return times
}

// at fails the test unless the time since the bubble began is want.
func (h *house) at(want time.Duration) {
	h.t.Helper()
	if got := h.now(); got != want {
		h.t.Errorf("it is %v after the beginning, want %v", got, want)
	}
}

func session(token string) *store.Command {
	return &store.Command{Op: store.OpSessionOpen, Space: space, Key: []byte("sid"), Token: []byte(token), Lease: 30_000, Who: &store.Who{PID: 7, Script: token + ".php"}}
}

func lock(token string, bound bool) *store.Command {
	return &store.Command{Op: store.OpLockAcquire, Space: space, Key: []byte("lock"), Token: []byte(token), Bound: bound}
}

// release is the release of what acquire took.
func release(acquire *store.Command) *store.Command {
	c := *acquire
	c.Op = store.OpLockRelease
	if acquire.Op == store.OpSessionOpen {
		c.Op = store.OpSessionRelease
	}
	return &c
}

// take takes a free lock at once.
func (h *house) take(c *Client, cmd *store.Command) store.Result {
	h.t.Helper()
	r, err := c.Do(h.t.Context(), cmd)
	if err != nil || r.Status != store.OK {
		h.t.Fatalf("%s is not granted its lock: %+v, %v", cmd.Token, r, err)
	}
	return r
}

// ended is how a wait ended, and when.
type ended struct {
	r   store.Result
	err error
	at  time.Duration
}

// wait waits in a goroutine of its own and is queued when it returns.
func (h *house) wait(c *Client, cmd *store.Command, patience time.Duration) <-chan ended {
	done := make(chan ended, 1)
	go func() {
		r, err := c.Wait(context.Background(), cmd, patience)
		done <- ended{r, err, h.now()}
	}()
	synctest.Wait()
	return done
}

// still fails the test if a wait has ended.
func (h *house) still(wait <-chan ended, what string) {
	h.t.Helper()
	synctest.Wait()
	select {
	case e := <-wait:
		h.t.Fatalf("%s does not wait any more: %+v", what, e)
	default:
	}
}

// isFree says whether another could have the lock now, and leaves it as it was.
func (h *house) isFree(acquire *store.Command) bool {
	h.t.Helper()
	probe := *acquire
	probe.Token, probe.Lease = []byte("probe"), 1000
	r, err := h.local.Do(h.t.Context(), &probe)
	if err != nil {
		h.t.Fatal(err)
	}
	if r.Status == store.OK {
		h.local.Do(h.t.Context(), release(&probe))
	}
	return r.Status == store.OK
}

func TestWaitersAreServedInTheOrderInWhichTheyCame(t *testing.T) {
	for _, kind := range []func(string) *store.Command{session, func(s string) *store.Command { return lock(s, false) }} {
		inside(t, nil, func(h *house) {
			c := h.l.NewClient()
			defer c.Close()
			h.take(c, kind("t0"))
			var waits []<-chan ended
			for i := range 10 {
				waits = append(waits, h.wait(c, kind(fmt.Sprintf("t%d", i+1)), time.Minute))
				time.Sleep(time.Millisecond)
			}
			began := h.now()
			for i, w := range waits {
				for _, later := range waits[i:] {
					h.still(later, "one who is not the next")
				}
				c.Do(h.t.Context(), release(kind(fmt.Sprintf("t%d", i))))
				synctest.Wait()
				select {
				case e := <-w:
					if e.err != nil || e.r.Status != store.OK || e.at != began {
						t.Fatalf("waiter %d: %+v, want a grant at %v", i+1, e, began)
					}
				default:
					t.Fatalf("waiter %d was not granted the lock when it was released", i+1)
				}
			}
			h.at(began) // ten hand-overs took no time at all
		})
	}
}

func TestBackOffWhenTheReleaseIsNotSeenHere(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		h.take(c, lock("a", false))
		w := h.wait(c, lock("b", false), time.Minute)
		time.Sleep(560 * time.Millisecond)
		h.local.Do(h.t.Context(), release(lock("a", false))) // as another node would: nobody here is told
		e := <-w
		if e.err != nil || e.r.Status != store.OK {
			t.Fatalf("%+v", e)
		}
		ms := time.Millisecond
		want := []time.Duration{0, 10 * ms, 30 * ms, 70 * ms, 150 * ms, 250 * ms, 350 * ms, 450 * ms, 550 * ms, 650 * ms}
		if got := h.asks(store.OpLockAcquire, "b"); !slices.Equal(got, want) {
			t.Errorf("it asked at %v, want %v", got, want)
		}
	})
}

func TestOnlyTheHeadOfAQueueAsks(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		h.take(c, lock("a", false))
		h.wait(c, lock("b", false), time.Minute)
		h.wait(c, lock("c", false), time.Minute)
		time.Sleep(10 * time.Second)
		if n := len(h.asks(store.OpLockAcquire, "c")); n > 0 {
			t.Errorf("the second in the queue asked %d times", n)
		}
		if n := len(h.asks(store.OpLockAcquire, "b")); n < 90 || n > 110 {
			t.Errorf("in ten seconds the first asked %d times, want about 100", n)
		}
		h.l.Drain()
	})
}

func TestAWaiterIsThereWhenALeaseEnds(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		a := lock("a", false)
		a.Lease = 1234
		h.take(c, a)
		if e := <-h.wait(c, lock("b", false), time.Minute); e.err != nil || e.r.Status != store.OK || e.at != 1234*time.Millisecond {
			t.Errorf("%+v, want a grant at the end of the lease", e)
		}
	})
}

func TestWaitForALockThatNeverEndsDoesNotSpin(t *testing.T) {
	for _, lease := range []int64{0, 1 << 62, 1<<63 - 1, (1<<63 - 1) / 1_000_000 * 2} {
		inside(t, func(c *Config) { c.MaxHold = 0 }, func(h *house) {
			c := h.l.NewClient()
			defer c.Close()
			a := lock("a", false)
			a.Lease = lease
			h.take(c, a)
			s := session("a")
			s.Lease = lease
			h.take(c, s)
			w1, w2 := h.wait(c, lock("b", false), 5*time.Second), h.wait(c, session("b"), 5*time.Second)
			<-w1
			<-w2
			if n := len(h.asks(store.OpLockAcquire, "b")) + len(h.asks(store.OpSessionOpen, "b")); n > 150 {
				t.Errorf("with a lease of %d ms the waiters asked %d times in five seconds", lease, n)
			}
		})
	}
}

// The data of a session can be large and its owner another host, which a waiter asks often.
func TestOnlyTheLastTryOfAWaitAsksForTheData(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		h.take(c, session("a"))
		var wanted []bool
		h.decide(func(_ context.Context, cmd *store.Command) (*answer, bool) {
			if cmd.Op == store.OpSessionOpen && string(cmd.Token) == "b" {
				wanted = append(wanted, cmd.WantOld)
			}
			return nil, false
		})
		b := session("b")
		b.WantOld = true
		<-h.wait(c, b, 5*time.Second)
		last := len(wanted) - 1
		if last < 10 || !wanted[last] || slices.Contains(wanted[:last], true) {
			t.Errorf("of %d tries the data was asked for by %v", len(wanted), wanted)
		}
	})
}

func TestTheWaitIsLimited(t *testing.T) {
	for _, c := range []struct{ asks, most, want time.Duration }{
		{5 * time.Second, time.Minute, 5 * time.Second},
		{5 * time.Minute, time.Minute, time.Minute},
		{0, time.Minute, 0},
		{time.Minute, 0, 0},
	} {
		inside(t, func(cfg *Config) { cfg.MaxWait = c.most }, func(h *house) {
			client := h.l.NewClient()
			defer client.Close()
			h.take(client, session("a"))
			e := <-h.wait(client, session("b"), c.asks)
			if e.err != nil || e.r.Status != store.Busy || e.r.Holder == nil || e.r.Holder.Who.Script != "a.php" || e.at != c.want {
				t.Errorf("a wait of %v with at most %v: %+v, want busy with a's at %v", c.asks, c.most, e, c.want)
			}
			if n := h.l.Waiting(); n != 0 {
				t.Errorf("%d wait still", n)
			}
		})
	}
}

func TestOneMoreThanMaxWaitersIsToldAtOnce(t *testing.T) {
	for _, kind := range []func(string) *store.Command{session, func(s string) *store.Command { return lock(s, true) }} {
		inside(t, func(c *Config) { c.MaxWaiters = 2 }, func(h *house) {
			c := h.l.NewClient()
			defer c.Close()
			h.take(c, kind("a"))
			h.wait(c, kind("b"), time.Minute)
			h.wait(c, kind("c"), time.Minute)
			e := <-h.wait(c, kind("d"), time.Minute)
			if !errors.Is(e.err, ErrQueueFull) || e.r.Status != store.Busy || e.at != 0 {
				t.Fatalf("the third waiter: %+v, want queue full at once", e)
			}
			if e.r.Holder == nil || e.r.Holder.Token != "a" {
				t.Errorf("it is not told who holds the lock: %+v", e.r.Holder)
			}
			if n := h.l.Waiters(kind("x")); n != 2 {
				t.Errorf("%d wait, want 2", n)
			}
			h.l.Drain()
		})
	}
}

func TestAFullQueueOfOneLockIsNoneOfAnothers(t *testing.T) {
	inside(t, func(c *Config) { c.MaxWaiters = 1 }, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		h.take(c, lock("a", true))
		h.wait(c, lock("b", true), time.Minute)
		h.take(c, session("a")) // of no lock's name
		other := lock("a", true)
		other.Key = []byte("other")
		h.take(c, other)
		h.l.Drain()
	})
}

func TestNobodyIsGrantedALockAheadOfTheQueue(t *testing.T) {
	// In the instant between a release and the head's grant, one who comes anew must not take the lock.
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		h.take(c, session("a"))
		w := h.wait(c, session("b"), time.Minute)
		h.local.Do(h.t.Context(), release(session("a"))) // free, but the head does not know yet
		r, err := c.Do(h.t.Context(), session("c"))
		if err != nil || r.Status != store.Busy {
			t.Errorf("one who came after the queue: %+v, %v", r, err)
		}
		if e := <-w; e.r.Status != store.OK {
			t.Errorf("the head: %+v", e)
		}
	})
}

func TestTheHolderMayAskAgainThoughOthersWait(t *testing.T) {
	// The answer to its first request may have been lost: the same token gets the same grant, at once.
	for _, kind := range []func(string) *store.Command{session, func(s string) *store.Command { return lock(s, true) }, func(s string) *store.Command { return lock(s, false) }} {
		inside(t, func(c *Config) { c.MaxWaiters = 1 }, func(h *house) {
			c, other := h.l.NewClient(), h.l.NewClient()
			defer c.Close()
			defer other.Close()
			first := h.take(c, kind("a"))
			w := h.wait(other, kind("b"), time.Minute)
			for _, again := range []*Client{c, other} {
				r, err := again.Do(h.t.Context(), kind("a"))
				if err != nil || r.Status != store.OK || r.Fence != first.Fence {
					t.Errorf("the same token again: %+v, %v; want fence %d", r, err, first.Fence)
				}
			}
			if e := <-h.wait(c, kind("a"), time.Minute); e.err != nil || e.r.Status != store.OK || e.at != 0 {
				t.Errorf("the same token, waiting, with the queue full: %+v", e)
			}
			h.still(w, "the waiter")
			h.l.Drain()
		})
	}
}

func TestABusyAnswerNamesTheHolderThoughOthersWait(t *testing.T) {
	for _, kind := range []func(string) *store.Command{session, func(s string) *store.Command { return lock(s, true) }} {
		inside(t, nil, func(h *house) {
			c := h.l.NewClient()
			defer c.Close()
			h.take(c, kind("a"))
			h.wait(c, kind("b"), time.Minute)
			r, err := c.Do(h.t.Context(), kind("c"))
			if err != nil || r.Status != store.Busy || r.Holder == nil || r.Holder.Token != "a" {
				t.Errorf("%+v, %v", r, err)
			}
			h.l.Drain()
		})
	}
}

func TestAWaiterWhoseClientHasGoneIsDroppedBeforeAGrant(t *testing.T) {
	inside(t, nil, func(h *house) {
		c, dead := h.l.NewClient(), h.l.NewClient()
		defer c.Close()
		h.take(c, session("a"))
		gone := h.wait(dead, session("b"), time.Minute)
		next := h.wait(c, session("c"), time.Minute)
		dead.Close()
		if e := <-gone; !errors.Is(e.err, ErrClosed) {
			t.Errorf("the dead one's wait: %+v", e)
		}
		before := len(h.asks(store.OpSessionOpen, "b"))
		c.Do(h.t.Context(), release(session("a")))
		if e := <-next; e.r.Status != store.OK || e.at != 0 {
			t.Errorf("the next: %+v", e)
		}
		if n := len(h.asks(store.OpSessionOpen, "b")); n != before {
			t.Error("the dead one was asked for")
		}
		if r, err := dead.Do(h.t.Context(), session("d")); err == nil && r.Status == store.OK {
			t.Error("a client that closed was granted a lock")
		}
	})
}

func TestAGrantThatCrossedItsClientsEndIsReleased(t *testing.T) {
	for what, end := range map[string]func(c *Client, cancel func()){
		"the client closed":  func(c *Client, _ func()) { c.Close() },
		"the request ended":  func(c *Client, cancel func()) { cancel(); c.EndRequest() },
		"the daemon dropped": func(c *Client, cancel func()) { cancel() },
	} {
		for _, kind := range []func(string) *store.Command{session, func(s string) *store.Command { return lock(s, true) }} {
			inside(t, nil, func(h *house) {
				c, other := h.l.NewClient(), h.l.NewClient()
				defer c.Close()
				defer other.Close()
				ctx, cancel := context.WithCancel(h.t.Context())
				defer cancel()
				decided, goOn := make(chan bool), make(chan bool)
				h.decide(func(ctx context.Context, cmd *store.Command) (*answer, bool) {
					if string(cmd.Token) != "a" || cmd.Op != kind("").Op {
						return nil, false
					}
					r, err := h.local.Do(ctx, cmd) // the grant lands, and its answer is on the way
					decided <- true
					<-goOn
					return &answer{r, err}, true
				})
				done := make(chan ended, 1)
				go func() {
					r, err := c.Do(ctx, kind("a"))
					done <- ended{r: r, err: err}
				}()
				<-decided
				w := h.wait(other, kind("b"), time.Minute)
				end(c, cancel)
				goOn <- true
				if e := <-done; !errors.Is(e.err, ErrClosed) {
					t.Errorf("%s: the grant was answered: %+v", what, e)
				}
				if e := <-w; e.err != nil || e.r.Status != store.OK || e.at != 0 {
					t.Errorf("%s: the next waiter: %+v, want a grant at once", what, e)
				}
				if n := h.l.Held(); n != 1 {
					t.Errorf("%s: %d locks are held, want the waiter's", what, n)
				}
			})
		}
	}
}

func TestPromise4ADeadHolderFreesAtOnce(t *testing.T) {
	for _, kind := range []func(string) *store.Command{session, func(s string) *store.Command { return lock(s, true) }} {
		inside(t, nil, func(h *house) {
			dying, c := h.l.NewClient(), h.l.NewClient()
			defer c.Close()
			h.take(dying, kind("a"))
			w := h.wait(c, kind("b"), time.Minute)
			time.Sleep(17 * time.Second)
			dying.Close()
			if e := <-w; e.err != nil || e.r.Status != store.OK || e.at != 17*time.Second {
				t.Errorf("the waiter: %+v, want a grant in the moment of the death", e)
			}
			if n := h.counted("coatcheck_locks_swept_total"); n != 1 {
				t.Errorf("%v locks were counted as swept", n)
			}
		})
	}
}

func TestPromise4ALongHolderIsRenewedADetachedLockIsNot(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		h.take(c, session("a"))
		h.take(c, lock("bound", true))
		free := lock("free", false)
		free.Key, free.Lease = []byte("free"), 45_000
		h.take(c, free)
		time.Sleep(44 * time.Second)
		synctest.Wait()
		if h.isFree(session("")) || h.isFree(lock("", true)) || h.isFree(free) {
			t.Error("a lock ended within its lease")
		}
		third := []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second, 40 * time.Second}
		if got := h.asks(store.OpSessionRenew, "a"); !slices.Equal(got, third) {
			t.Errorf("the session's lock was renewed at %v, want %v", got, third)
		}
		if got := h.asks(store.OpLockRenew, "bound"); !slices.Equal(got, third) {
			t.Errorf("the bound lock was renewed at %v, want %v", got, third)
		}
		if got := h.asks(store.OpLockRenew, "free"); len(got) > 0 {
			t.Errorf("the detached lock was renewed at %v", got)
		}
		time.Sleep(time.Second)
		if !h.isFree(free) {
			t.Error("the detached lock outlived its lease")
		}
	})
}

func TestDetachedLocksOutliveTheirClient(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		forever := lock("a", false)
		h.take(c, forever)
		c.EndRequest()
		c.Close()
		time.Sleep(24 * time.Hour)
		if h.isFree(forever) {
			t.Fatal("it was swept")
		}
		another := h.l.NewClient()
		defer another.Close()
		if r, err := another.Do(h.t.Context(), release(forever)); err != nil || !r.Done {
			t.Errorf("its token does not release it from elsewhere: %+v, %v", r, err)
		}
	})
}

func TestRenewalEndsWithTheLongestHold(t *testing.T) {
	inside(t, func(c *Config) { c.MaxHold = time.Minute }, func(h *house) {
		c, other := h.l.NewClient(), h.l.NewClient()
		defer c.Close()
		defer other.Close()
		h.take(c, session("a"))
		w := h.wait(other, session("b"), 5*time.Minute)
		if e := <-w; e.r.Status != store.OK || e.at < time.Minute-2*time.Millisecond || e.at > time.Minute {
			t.Errorf("the waiter: %+v, want a grant when the minute is over, to the millisecond", e)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := h.counted("coatcheck_locks_lost_total"); n != 1 {
			t.Errorf("%v locks were counted as lost", n)
		}
		if log := h.logged(); !strings.Contains(log, "lock is renewed no more") || !strings.Contains(log, "script=a.php") || !strings.Contains(log, "pid=7") {
			t.Errorf("the log does not say whose lock was lost: %s", log)
		}
		if n := h.l.Held(); n != 1 {
			t.Errorf("%d locks are held, want the waiter's", n)
		}
	})
}

func TestALeaseIsNoLongerThanTheLongestHold(t *testing.T) {
	inside(t, func(c *Config) { c.MaxHold = 5 * time.Second }, func(h *house) {
		c, other := h.l.NewClient(), h.l.NewClient()
		defer c.Close()
		defer other.Close()
		h.take(c, session("a")) // asks for 30 s
		if e := <-h.wait(other, session("b"), time.Minute); e.r.Status != store.OK || e.at > 5*time.Second+2*time.Millisecond {
			t.Errorf("the waiter: %+v, want a grant after five seconds", e)
		}
	})
}

func TestLongestHoldOfZeroNeverRenews(t *testing.T) {
	inside(t, func(c *Config) { c.MaxHold = 0 }, func(h *house) {
		c, other := h.l.NewClient(), h.l.NewClient()
		defer c.Close()
		defer other.Close()
		h.take(c, session("a"))
		if e := <-h.wait(other, session("b"), time.Minute); e.r.Status != store.OK || e.at != 30*time.Second {
			t.Errorf("the waiter: %+v, want a grant at the end of the bare lease", e)
		}
		if n := len(h.asks(store.OpSessionRenew, "a")); n > 0 {
			t.Errorf("it was renewed %d times", n)
		}
	})
}

func TestTheClientsOwnRenewalBeginsTheLongestHoldAnew(t *testing.T) {
	inside(t, func(c *Config) { c.MaxHold = time.Minute }, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		h.take(c, lock("a", true))
		for range 5 {
			time.Sleep(50 * time.Second)
			renew := lock("a", true)
			renew.Op, renew.Lease = store.OpLockRenew, 30_000
			if r, err := c.Do(h.t.Context(), renew); err != nil || r.Status != store.OK {
				t.Fatalf("after %v: %+v, %v", h.now(), r, err)
			}
		}
		time.Sleep(time.Minute + time.Second)
		if !h.isFree(lock("", true)) {
			t.Error("it is still renewed, a minute after the client last asked")
		}
	})
}

func TestShortLeasesAreRenewedInTime(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		s := session("a")
		s.Lease = 1 // raised to the least
		h.take(c, s)
		other := lock("x", true) // a second lock, with a long lease, arms the timer first and must not delay the other
		h.take(c, other)
		for range 50 {
			time.Sleep(21 * time.Millisecond)
			if h.isFree(session("")) {
				t.Fatalf("the lock is free after %v", h.now())
			}
		}
	})
}

func TestALockGrantedWhileTheTimerSleepsIsRenewedInTime(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		h.take(c, lock("long", true)) // due in ten seconds
		time.Sleep(time.Second)
		s := session("short")
		s.Lease = 600 // due in 200 ms
		h.take(c, s)
		time.Sleep(30 * time.Second)
		if h.isFree(session("")) || h.isFree(lock("", true)) {
			t.Error("one of the two was not renewed")
		}
		c.Do(h.t.Context(), release(lock("long", true)))
		c.Do(h.t.Context(), release(s))
		time.Sleep(time.Minute) // the timer finds nothing
		h.take(c, session("later"))
		time.Sleep(time.Minute)
		if h.isFree(session("")) {
			t.Error("a lock taken after a quiet time is not renewed")
		}
	})
}

func TestALockThatWasTakenAwayIsReportedLost(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		h.take(c, lock("a", true))
		force := lock("", true)
		force.Op = store.OpLockForce
		c.Do(h.t.Context(), force)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if n := h.counted("coatcheck_locks_lost_total"); n != 1 || h.l.Held() != 0 {
			t.Errorf("%v were counted as lost, %d as held", n, h.l.Held())
		}
	})
}

func TestReleasedLocksAreNotRenewed(t *testing.T) {
	for what, end := range map[string]*store.Command{
		"release": release(session("a")),
		"destroy": {Op: store.OpSessionDestroy, Space: space, Key: []byte("sid"), Token: []byte("a")},
		"commit":  {Op: store.OpSessionCommit, Space: space, Key: []byte("sid"), Token: []byte("a"), Release: true, TTL: 1000},
	} {
		inside(t, nil, func(h *house) {
			c := h.l.NewClient()
			defer c.Close()
			end.Fence = h.take(c, session("a")).Fence
			c.Do(h.t.Context(), end)
			if n := h.l.Held(); n != 0 {
				t.Errorf("%s: %d are counted as held", what, n)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := len(h.asks(store.OpSessionRenew, "a")); n > 0 {
				t.Errorf("%s: renewed %d times", what, n)
			}
		})
	}
}

func TestARenewalThatOvertakesTheEndDoesNotReviveTheLock(t *testing.T) {
	// The timer fires, the client dies, its lock is released, and only then the renewal arrives.
	for what, end := range map[string]func(*Client){"close": (*Client).Close, "end of the request": (*Client).EndRequest} {
		inside(t, nil, func(h *house) {
			c := h.l.NewClient()
			defer c.Close()
			h.take(c, session("a"))
			arrived, goOn := make(chan bool), make(chan bool)
			h.decide(func(_ context.Context, cmd *store.Command) (*answer, bool) {
				if cmd.Op == store.OpSessionRenew {
					arrived <- true
					<-goOn
				}
				return nil, false
			})
			<-arrived
			end(c)
			goOn <- true
			synctest.Wait()
			if !h.isFree(session("")) {
				t.Errorf("%s: the dead client's lock lives on", what)
			}
		})
	}
}

func TestEndOfTheRequestReleasesBoundLocksAndKeepsTheClient(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		h.take(c, session("a"))
		h.take(c, lock("bound", true))
		free := lock("free", false)
		free.Key = []byte("free")
		h.take(c, free)
		c.EndRequest()
		if !h.isFree(session("")) || !h.isFree(lock("", true)) {
			t.Error("a bound lock is still held")
		}
		if h.isFree(free) {
			t.Error("the detached lock is gone")
		}
		h.take(c, session("next request"))
		if n := h.l.Held(); n != 1 {
			t.Errorf("%d are counted as held, want 1", n)
		}
		if log := h.logged(); strings.Contains(log, "next request") {
			t.Error("a token is in the log in full")
		}
	})
}

func TestEndOfTheRequestDropsItsWaits(t *testing.T) {
	inside(t, nil, func(h *house) {
		holder, c := h.l.NewClient(), h.l.NewClient()
		defer holder.Close()
		defer c.Close()
		h.take(holder, session("a"))
		ctx, cancel := context.WithCancel(h.t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := c.Wait(ctx, session("b"), time.Minute)
			done <- err
		}()
		synctest.Wait()
		cancel()
		c.EndRequest()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the wait ended with %v", err)
		}
		if n := h.l.Waiting(); n != 0 {
			t.Errorf("%d wait", n)
		}
	})
}

func TestAbandonLeavesTheLocksToTheirLeases(t *testing.T) {
	inside(t, nil, func(h *house) {
		c, waiting := h.l.NewClient(), h.l.NewClient()
		h.take(c, session("a"))
		w := h.wait(waiting, session("b"), time.Minute)
		time.Sleep(25 * time.Second) // renewed at 20
		c.Abandon()
		waiting.Abandon()
		c.Close() // as the end of the connection does
		waiting.Close()
		if e := <-w; !errors.Is(e.err, ErrClosed) {
			t.Errorf("the wait: %+v", e)
		}
		time.Sleep(24 * time.Second)
		if h.isFree(session("")) {
			t.Error("the lock was released")
		}
		time.Sleep(time.Second)
		if !h.isFree(session("")) {
			t.Error("the lock was renewed")
		}
		if h.l.Held() != 0 {
			t.Errorf("%d are counted as held", h.l.Held())
		}
	})
}

func TestDraining(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		a := h.take(c, session("a"))
		w := h.wait(c, session("b"), time.Minute)
		watching := make(chan error, 1)
		go func() {
			key := &store.Command{Op: store.OpVersion, Space: space, Key: []byte("k")}
			_, _, err := c.Watch(h.t.Context(), key, 1, time.Minute)
			watching <- err
		}()
		synctest.Wait()
		h.l.Drain()
		h.l.Drain()
		if e := <-w; !errors.Is(e.err, ErrShuttingDown) {
			t.Errorf("the waiter: %+v", e)
		}
		if err := <-watching; !errors.Is(err, ErrShuttingDown) {
			t.Errorf("the watcher: %v", err)
		}
		if _, err := c.Do(h.t.Context(), session("c")); !errors.Is(err, ErrShuttingDown) {
			t.Errorf("one who asks now: %v", err)
		}
		commit := &store.Command{Op: store.OpSessionCommit, Space: space, Key: []byte("sid"), Token: []byte("a"), Fence: a.Fence, TTL: 1000, Release: true}
		if r, err := c.Do(h.t.Context(), commit); err != nil || !r.Done || !r.Released {
			t.Errorf("the holder's commit: %+v, %v", r, err)
		}
		if h.l.Held() != 0 || h.l.Waiting() != 0 {
			t.Errorf("%d hold and %d wait", h.l.Held(), h.l.Waiting())
		}
	})
}

func TestSharedWaitersFollowEachOther(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		shared := func(token string) *store.Command {
			cmd := lock(token, true)
			cmd.Shared = true
			return cmd
		}
		h.take(c, lock("writer", true))
		r1, r2 := h.wait(c, shared("r1"), time.Minute), h.wait(c, shared("r2"), time.Minute)
		w := h.wait(c, lock("w2", true), time.Minute)
		r3 := h.wait(c, shared("r3"), time.Minute)
		c.Do(h.t.Context(), release(lock("writer", true)))
		if a, b := <-r1, <-r2; a.r.Status != store.OK || b.r.Status != store.OK || a.at != 0 || b.at != 0 {
			t.Errorf("the readers in front: %+v, %+v, want both at once", a, b)
		}
		h.still(w, "the writer behind them")
		h.still(r3, "the reader behind the writer") // else a stream of readers would starve it
		c.Do(h.t.Context(), release(shared("r1")))
		c.Do(h.t.Context(), release(shared("r2")))
		if e := <-w; e.r.Status != store.OK || e.at != 0 {
			t.Errorf("the writer: %+v", e)
		}
		c.Do(h.t.Context(), release(lock("w2", true)))
		if e := <-r3; e.r.Status != store.OK {
			t.Errorf("the last reader: %+v", e)
		}
	})
}

func TestUnreachableIsNeitherGrantedNorTaken(t *testing.T) {
	unreachable := fmt.Errorf("node 3: %w", arbiter.ErrUnreachable)
	for _, lands := range []bool{false, true} {
		for _, kind := range []func(string) *store.Command{session, func(s string) *store.Command { return lock(s, true) }} {
			inside(t, nil, func(h *house) {
				c := h.l.NewClient()
				defer c.Close()
				var away atomic.Bool
				away.Store(true)
				h.decide(func(ctx context.Context, cmd *store.Command) (*answer, bool) {
					if !away.Load() {
						return nil, false
					}
					if lands { // the command arrives, its answer does not
						h.local.Do(ctx, cmd)
					}
					return &answer{err: unreachable}, true
				})
				if r, err := c.Do(h.t.Context(), kind("a")); !errors.Is(err, arbiter.ErrUnreachable) || r.Status == store.Busy || r.Locked {
					t.Errorf("asked at once: %+v, %v", r, err)
				}
				if e := <-h.wait(c, kind("a"), time.Minute); !errors.Is(e.err, arbiter.ErrUnreachable) || e.at != 0 {
					t.Errorf("waiting: %+v, want the error at once", e)
				}
				if n := h.l.Held(); n != 0 {
					t.Errorf("%d are counted as held", n)
				}
				away.Store(false)
				if r, err := c.Do(h.t.Context(), kind("a")); err != nil || r.Status != store.OK {
					t.Errorf("the same token again (landed: %v): %+v, %v", lands, r, err)
				}
				if r, err := c.Do(h.t.Context(), release(kind("a"))); err != nil || !r.Done {
					t.Errorf("its release (landed: %v): %+v, %v", lands, r, err)
				}
				if !h.isFree(kind("")) {
					t.Error("the lock is still held")
				}
			})
		}
	}
}

func TestAnUnreachableReleaseMayBeRetried(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		h.take(c, session("a"))
		h.decide(func(_ context.Context, cmd *store.Command) (*answer, bool) {
			if cmd.Op == store.OpSessionRelease {
				return &answer{err: arbiter.ErrUnreachable}, true
			}
			return nil, false
		})
		if _, err := c.Do(h.t.Context(), release(session("a"))); !errors.Is(err, arbiter.ErrUnreachable) {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if h.isFree(session("")) {
			t.Error("a lock whose release did not arrive is not renewed, although its client lives")
		}
		c.Close()
		if !h.isFree(session("")) {
			t.Error("it was not released with its client")
		}
	})
}

func TestRenewalGoesOnWhenTheOwnerIsAwayForAWhile(t *testing.T) {
	inside(t, nil, func(h *house) {
		c := h.l.NewClient()
		defer c.Close()
		h.take(c, session("a"))
		h.decide(func(ctx context.Context, cmd *store.Command) (*answer, bool) {
			if cmd.Op == store.OpSessionRenew && h.now() < 15*time.Second {
				<-ctx.Done() // it does not answer at all
				return &answer{err: errors.Join(arbiter.ErrUnreachable, ctx.Err())}, true
			}
			return nil, false
		})
		time.Sleep(45 * time.Second)
		synctest.Wait()
		if h.isFree(session("")) {
			t.Error("the lease was not saved by a later renewal")
		}
		if log := h.logged(); !strings.Contains(log, "could not renew a lock, trying again") {
			t.Errorf("the log does not tell: %s", log)
		}
	})
}

func TestShortHidesWhatItShortens(t *testing.T) {
	for in, want := range map[string]string{"": "", "abc": "abc", "abcdef": "abcdef", "abcdefg": "abcdef…"} {
		if got := Short(in); got != want {
			t.Errorf("Short(%q) is %q, want %q", in, got, want)
		}
	}
}
