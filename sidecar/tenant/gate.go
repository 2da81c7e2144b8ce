package tenant

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Turn is how many requests a connection has served before it lets others have their turn. The longer it is, the longer others
// wait; the shorter, the more is spent on changing over.
const Turn = 32

// Gate lets a few connections be served at a time. When more want to be, tenants take turns, and
// the connections of one tenant queue: a tenant with a thousand connections gets as much as one with a single one.
//
// One processor is left out, if there are two. Go looks for connections that have become readable when a processor has
// nothing else to do, and else every 10 ms only, which is how long a quiet tenant would wait beside a busy one.
type Gate struct {
	limit   int32
	inside  atomic.Int32
	waiting atomic.Int32 // in all lines

	mu       sync.Mutex
	lines    []*line // those in which somebody waits, in turn; guarded by mu
	admitted uint64  // how many were admitted from the lines; guarded by mu
}

// stall is how long nobody is admitted until the next one is in any case: who is inside for so long waits for something else
// than a processor, as a rule the disk, and those who only read shall not wait with it.
const stall = 20 * time.Millisecond

// line is those of one tenant who wait, in order.
type line struct{ seats []*Seat }

// NewGate returns a gate for a number of processors.
func NewGate(processors int) *Gate { return &Gate{limit: int32(max(1, processors-1))} }

// Seat is a connection's place at its tenant's gate. It belongs to one goroutine. Its nil pointer is that of a connection
// which is nobody's yet, and has no gate.
type Seat struct {
	t      *Tenant
	ready  chan struct{} // made when it is first needed
	timer  *time.Timer   // made with ready
	served int           // requests in this turn
}

// Seat returns a place for a connection of the tenant.
func (t *Tenant) Seat() *Seat { return &Seat{t: t} }

// gate returns the seat's gate, or nil.
func (s *Seat) gate() *Gate {
	if s == nil {
		return nil
	}
	return s.t.gate
}

// Enter waits for the connection's turn. The caller calls Leave, and does not wait for its client before it has.
func (s *Seat) Enter() {
	if g := s.gate(); g != nil && (g.waiting.Load() > 0 || !g.take()) {
		g.wait(s)
	}
}

// Leave ends the turn.
func (s *Seat) Leave() {
	g := s.gate()
	if g == nil {
		return
	}
	g.inside.Add(-1)
	if g.waiting.Load() > 0 { // who began to wait after this has seen that there is room
		g.admit()
	}
}

// Served counts a request of a connection that is inside, and has others take their turn when it was its share.
func (s *Seat) Served() {
	if s == nil {
		return
	}
	if s.served++; s.served < Turn {
		return
	}
	s.served = 0
	s.Leave()
	runtime.Gosched()
	s.Enter()
}

// Idle says that the client has nothing more to be served: its next request begins a turn.
func (s *Seat) Idle() {
	if s != nil {
		s.served = 0
	}
}

// take takes a place if there is one.
func (g *Gate) take() bool {
	for {
		n := g.inside.Load()
		if n >= g.limit {
			return false
		}
		if g.inside.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// wait queues, and returns when it is the seat's turn.
func (g *Gate) wait(s *Seat) {
	seen := g.queue(s)
	for {
		select {
		case <-s.ready:
			s.timer.Stop()
			return
		case <-s.timer.C:
			seen = g.relieve(seen)
			s.timer.Reset(stall)
		}
	}
}

// queue puts the seat at the end of its line and returns how many were admitted so far.
func (g *Gate) queue(s *Seat) (admitted uint64) {
	if s.ready == nil {
		s.ready, s.timer = make(chan struct{}, 1), time.NewTimer(stall)
	} else {
		s.timer.Reset(stall)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting.Add(1)
	l := &s.t.line
	l.seats = append(l.seats, s)
	if len(l.seats) == 1 {
		g.lines = append(g.lines, l)
	}
	g.admitHeld()
	return g.admitted
}

// relieve admits one more than there is room for when nobody was admitted since seen. It returns how many were admitted so far.
func (g *Gate) relieve(seen uint64) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.admitted == seen && len(g.lines) > 0 {
		g.inside.Add(1)
		g.next()
	}
	return g.admitted
}

// admit gives the free places to those who wait.
func (g *Gate) admit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.admitHeld()
}

func (g *Gate) admitHeld() {
	for len(g.lines) > 0 && g.take() {
		g.next()
	}
}

// next gives a place to the one whose turn it is.
func (g *Gate) next() {
	l := g.lines[0]
	first := l.seats[0]
	l.seats = slices.Delete(l.seats, 0, 1)
	g.lines = slices.Delete(g.lines, 0, 1)
	if len(l.seats) > 0 {
		g.lines = append(g.lines, l)
	}
	g.waiting.Add(-1)
	g.admitted++
	first.ready <- struct{}{}
}
