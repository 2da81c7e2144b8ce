package tenant

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"shop": true, "Shop_2-b": true, strings.Repeat("x", 64): true,
		"": false, "a b": false, "a.b": false, "a:b": false, "ä": false, "a\n": false, strings.Repeat("x", 65): false,
	} {
		if got := ValidName(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestEveryReasonHasAName(t *testing.T) {
	names := make(map[string]bool)
	for _, r := range Reasons() {
		names[r.String()] = true
	}
	if len(Reasons()) != int(reasons) || len(names) != int(reasons) {
		t.Errorf("%d reasons have the names %v", reasons, names)
	}
}

func TestUsersThatAreAllowed(t *testing.T) {
	anybody, some := New("a", Limits{}, nil), New("b", Limits{UIDs: []int{0, 33}}, nil)
	for uid, want := range map[int]bool{0: true, 33: true, 34: false, -1: false} {
		if !anybody.Allows(uid) || some.Allows(uid) != want {
			t.Errorf("user %d: %v, %v", uid, anybody.Allows(uid), some.Allows(uid))
		}
	}
}

func TestQuota(t *testing.T) {
	q := NewQuota(3)
	if !q.Take(2) || q.Take(2) || !q.Take(1) || q.Take(1) {
		t.Errorf("%d of 3 are taken", q.Used())
	}
	if q.Give(2); !q.Take(2) || q.Used() != 3 {
		t.Errorf("after some were given back %d of 3 are taken", q.Used())
	}
	if none := NewQuota(0); !none.Take(1<<40) || none.Used() != 1<<40 {
		t.Errorf("a quota of 0 is one: %d", none.Used())
	}
}

// TestRate: one second's requests at once, then one for each share of a second, whatever the pauses.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New("a", Limits{Rate: 10}, nil)
		served := func() (n int) {
			for a.Ask(false) == nil {
				n++
			}
			return n
		}
		if n := served(); n != 10 {
			t.Errorf("at first %d are served, want 10", n)
		}
		for pause, want := range map[time.Duration]int{99 * time.Millisecond: 0, 100 * time.Millisecond: 1, time.Second: 10, time.Hour: 10} {
			served()
			time.Sleep(pause)
			if n := served(); n != want {
				t.Errorf("after %v %d are served, want %d", pause, n, want)
			}
			time.Sleep(2 * time.Second)
		}
	})
}

// TestTheWaitThatIsToldIsTheOneThatHelps.
func TestTheWaitThatIsToldIsTheOneThatHelps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New("a", Limits{Rate: 7}, nil)
		for range 7 {
			a.Ask(false)
		}
		for range 20 {
			var e *TooManyRequests
			if err := a.Ask(false); !errors.As(err, &e) || e.Wait <= 0 || e.Setting != "tenants.a.requests_per_second" {
				t.Fatalf("one too many: %v", err)
			}
			time.Sleep(e.Wait - 1)
			if a.Ask(false) == nil {
				t.Fatal("it is served before")
			}
			time.Sleep(1)
			if err := a.Ask(false); err != nil {
				t.Fatalf("after the wait: %v", err)
			}
		}
		if a.Requests() != 7+20*3 || a.Refused(Rate) != 20*2 {
			t.Errorf("%d requests and %d refusals are counted", a.Requests(), a.Refused(Rate))
		}
	})
}

// TestWhatEndsSomethingIsServedAndCounted: what comes after it waits, but for a second at most.
func TestWhatEndsSomethingIsServedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New("a", Limits{Rate: 10}, nil)
		for range 10_000 {
			if err := a.Ask(true); err != nil {
				t.Fatal(err)
			}
		}
		var e *TooManyRequests
		if err := a.Ask(false); !errors.As(err, &e) || e.Wait > 1100*time.Millisecond || e.Wait < time.Second {
			t.Fatalf("after 10,000 of them: %v", err)
		}
		time.Sleep(e.Wait)
		if err := a.Ask(false); err != nil {
			t.Errorf("after the wait: %v", err)
		}
	})
}

// TestTheRateHoldsAmongMany who ask at the same time.
func TestTheRateHoldsAmongMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New("a", Limits{Rate: 1000}, nil)
		served := make(chan int, 8)
		for range cap(served) {
			go func() {
				n := 0
				for range 1000 {
					if a.Ask(false) == nil {
						n++
					}
				}
				served <- n
			}()
		}
		sum := 0
		for range cap(served) {
			sum += <-served
		}
		if sum != 1000 {
			t.Errorf("%d were served in no time, want 1000", sum)
		}
	})
}

// row has goroutines wait at the gate and notes in which order they come in.
type row struct {
	mu    sync.Mutex
	order []string // guarded by mu
	seats map[string]*Seat
}

func (r *row) wait(name string, t *Tenant) {
	s := t.Seat()
	r.mu.Lock()
	r.seats[name] = s
	r.mu.Unlock()
	go func() {
		s.Enter()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.order = append(r.order, name)
	}()
	synctest.Wait()
}

func (r *row) came() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.order, " ")
}

// TestTenantsTakeTurns whatever the number of their connections, and those of one tenant come in order.
func TestTenantsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(2)
		a, b, c := New("a", Limits{}, g), New("b", Limits{}, g), New("c", Limits{}, g)
		r := &row{seats: make(map[string]*Seat)}
		r.wait("a0", a) // and is inside
		for i := range 4 {
			r.wait(fmt.Sprint("a", i+1), a)
		}
		r.wait("b1", b)
		r.wait("b2", b)
		r.wait("c1", c)
		for _, next := range []string{"a0", "a1", "b1", "c1", "a2", "b2", "a3", "a4"} {
			came := strings.Fields(r.came())
			if last := came[len(came)-1]; last != next {
				t.Fatalf("%s is inside, want %s: %v", last, next, came)
			}
			r.seats[next].Leave()
			synctest.Wait()
		}
		if g.inside.Load() != 0 || g.waiting.Load() != 0 || len(g.lines) != 0 {
			t.Errorf("%d are inside and %d wait when all have left", g.inside.Load(), g.waiting.Load())
		}
	})
}

// TestWhoIsInsideForLongDoesNotKeepOthersOut: it waits for something else than a processor.
func TestWhoIsInsideForLongDoesNotKeepOthersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1)
		a, b := New("a", Limits{}, g), New("b", Limits{}, g)
		r := &row{seats: make(map[string]*Seat)}
		r.wait("stuck", a)
		r.wait("b1", b)
		r.wait("b2", b)
		if got := r.came(); got != "stuck" {
			t.Fatalf("at first %s", got)
		}
		time.Sleep(stall + 1)
		synctest.Wait()
		if got := r.came(); got != "stuck b1" {
			t.Fatalf("after a while %s", got)
		}
		time.Sleep(2 * stall)
		synctest.Wait()
		if got := r.came(); got != "stuck b1 b2" {
			t.Fatalf("after another while %s", got)
		}
		for _, s := range r.seats {
			s.Leave()
		}
		if g.inside.Load() != 0 || g.waiting.Load() != 0 {
			t.Errorf("%d are inside and %d wait when all have left", g.inside.Load(), g.waiting.Load())
		}
	})
}

// TestTheGateLetsNoMoreIn than there are places, and everybody in the end.
func TestTheGateLetsNoMoreIn(t *testing.T) {
	g := NewGate(3)
	var all sync.WaitGroup
	var turns sync.Map
	for i := range 50 {
		s := New(fmt.Sprint("t", i%5), Limits{}, g).Seat()
		all.Go(func() {
			for n := range 200 {
				s.Enter()
				if inside := g.inside.Load(); inside < 1 || inside > 2 {
					t.Errorf("%d are inside", inside)
				}
				s.Served()
				s.Leave()
				turns.Store(i, n+1)
			}
		})
	}
	all.Wait()
	turns.Range(func(who, n any) bool {
		if n != 200 {
			t.Errorf("%v had %v turns", who, n)
		}
		return true
	})
	if g.inside.Load() != 0 || g.waiting.Load() != 0 {
		t.Errorf("%d are inside and %d wait when all have left", g.inside.Load(), g.waiting.Load())
	}
}

// TestASeatWithoutAGate is that of a daemon of one tenant, or of a connection which is nobody's yet.
func TestASeatWithoutAGate(t *testing.T) {
	for _, s := range []*Seat{nil, New("a", Limits{}, nil).Seat()} {
		for range 3 * Turn {
			s.Enter()
			s.Served()
			s.Leave()
		}
		s.Idle()
	}
}

// BenchmarkGate is what a request pays where nobody waits.
func BenchmarkGate(b *testing.B) {
	s := New("a", Limits{}, NewGate(8)).Seat()
	for b.Loop() {
		s.Enter()
		s.Leave()
	}
}
