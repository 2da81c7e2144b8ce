package owner

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// Times by which hosts judge each other. Who takes over waits longer than a permission lasts: see the package's doc.
const (
	beat      = 250 * time.Millisecond // between heartbeats
	heardFor  = 2 * time.Second        // how long after the question an answer counts
	grace     = 3 * time.Second        // how long a new owner waits for one before it that did not answer
	maxOffset = 500 * time.Millisecond // between the clocks of members
	lostAfter = 2 * time.Minute        // how long shards wait for a host that may have their newest copy
)

// Config is what a Seat needs to know.
type Config struct {
	Peers  Peers
	Store  *store.Store
	Keeper arbiter.Keeper // nil: memory only
	Clock  arbiter.Clock
	Disk   Disk // keeps the view and the copies' epochs; nil: memory only

	// Machine is another string after each start of the machine. What was kept under another one may lack its last second. Empty: it is not known.
	Machine string

	Expect        int           // hosts that are to be; a majority is counted of them even when fewer have joined
	AckOwner      bool          // sessions and locks are acknowledged without a copy
	AckTimeout    time.Duration // how long to wait for the copy; 0: 50 ms
	ServeMinority bool          // one of two hosts decides alone

	Log     *slog.Logger
	Metrics *Metrics // nil: nobody wants them

	faults faults // for tests, which must see what each of them breaks
}

// faults are for tests.
type faults struct {
	noGrace    bool                          // a new owner does not wait for the one before
	noMajority bool                          // a host decides without a majority
	noCheck    bool                          // it does not look again after a command
	noCopies   bool                          // runner-ups' copies are acknowledged but not made
	between    func()                        // called between the check of the permission and the command
	applied    func(shard int, epoch uint64) // called when a command was applied rightfully, before others may decide
	brought    func(shard int, epoch uint64) // called with the epoch of the copy that a shard is to be served from
	degraded   func(ctx context.Context)     // called when a command is acknowledged without a copy
}

// Seat is this host's place among the owners: it agrees on views with the others, decides what it owns, and has copies of what others
// own. It is safe for concurrent use.
//
// mu is taken before a stream's and a shard of the store's before a stream's; no shard of the store is used with mu held, and mu is
// not held while anything is waited for but the disk.
type Seat struct {
	cfg      Config
	self     Member
	m        *Metrics
	says     *says
	handlers [256]handler

	accepted atomic.Pointer[view]
	permit   atomic.Pointer[permission]
	changed  atomic.Pointer[chan struct{}]
	floor    atomic.Int64 // the latest time that a peer has shown, ms

	gates   [store.Shards]gate
	intake  gate                                 // passed by copies that come in
	served  [store.Shards]atomic.Uint64          // the epoch in which the shard is served here
	since   [store.Shards]atomic.Uint64          // the epoch since which it is served without interruption
	copying [store.Shards]atomic.Pointer[stream] // where its records go; nil: nowhere

	turn    chan struct{} // holds one who changes the view
	install chan struct{} // holds one who changes copies that are claimed
	kick    chan struct{} // receives when a heartbeat should not wait
	doubt   chan struct{} // receives when somebody waits for a majority to answer again
	started int64         // ms
	life    context.Context
	stop    context.CancelFunc
	running crew

	mu         sync.Mutex
	peers      map[string]*peer      // guarded by mu
	claims     claims                // guarded by mu
	last       uint64                // the highest epoch of claims when the view was accepted; guarded by mu
	past       []pastView            // views accepted before, the last one last; guarded by mu
	known      bool                  // all views accepted within the last grace are in past; guarded by mu
	leaving    bool                  // guarded by mu
	differs    int                   // beats for which the view was not the one that should be; guarded by mu
	taking     ViewID                // the view in which taking over has begun; guarded by mu
	term       context.CancelFunc    // ends what belongs to the accepted view; guarded by mu
	streams    map[string]*stream    // by peer; guarded by mu
	inbound    map[string]*inbound   // by peer; guarded by mu
	handed     [store.Shards]handing // to whom shards were handed over; guarded by mu
	handouts   map[string]*handout   // by peer; guarded by mu
	source     [store.Shards]uint64  // the stream that keeps the copy; 0: none; guarded by mu
	lastStream uint64                // the number of the last stream that was begun; guarded by mu
}

// permission says until when a host may decide in a view.
type permission struct {
	view  *view
	until int64 // ms by the clock
	asked int64 // ms: all that was decided before was decided rightfully, for a majority that was asked then had not moved on
	alone bool  // not by a majority
}

// pastView is a view that was accepted until a time.
type pastView struct {
	view  *view
	until int64 // ms
}

// New returns a Seat, which does nothing before Start. It returns an error that wraps ErrDamaged if what is kept cannot be read.
func New(cfg Config) (*Seat, error) {
	cfg.AckTimeout = cmp.Or(cfg.AckTimeout, 50*time.Millisecond)
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	var kept []byte
	if cfg.Disk != nil {
		var err error
		if kept, err = cfg.Disk.Load(); err != nil {
			return nil, fmt.Errorf("load the view: %w", err)
		}
	}
	v, claims, err := decodeKept(kept, cfg.Machine)
	if err != nil {
		return nil, fmt.Errorf("load the view: %w", err)
	}
	s := &Seat{
		cfg: cfg, self: cfg.Peers.Self(), m: cfg.Metrics, says: newSays(cfg.Log, cfg.Clock),
		turn: make(chan struct{}, 1), install: make(chan struct{}, 1), kick: make(chan struct{}, 1), doubt: make(chan struct{}, 1),
		started: cfg.Clock(), known: v.id.Epoch == 0, claims: claims,
		peers: make(map[string]*peer), streams: make(map[string]*stream), inbound: make(map[string]*inbound), handouts: make(map[string]*handout),
	}
	for i := range s.gates {
		s.gates[i].init()
	}
	s.intake.init()
	s.accepted.Store(v)
	s.permit.Store(&permission{view: v})
	changed := make(chan struct{})
	s.changed.Store(&changed)
	s.life, s.stop = context.WithCancel(context.Background())
	s.term = func() {}
	s.serveKinds()
	cfg.Store.OnCopy(s.copyRecord)
	return s, nil
}

// Start begins to ask and to answer. The store must be loaded.
func (s *Seat) Start() {
	s.cfg.Peers.OnChange(s.hurry)
	s.running.Go(s.beats)
}

// Stop ends what the Seat does and waits for it. It does not leave: see Leave.
func (s *Seat) Stop() {
	s.stop()
	s.running.Wait()
}

// hurry has the next heartbeat not wait.
func (s *Seat) hurry() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

var errOver = errors.New("this host has stopped")

// handler serves one kind of question.
type handler func(ctx context.Context, from string, body []byte) ([]byte, error)

// handle has questions of a kind served by h. It must be called before Start. Kinds below firstRouted are the Seat's.
func (s *Seat) handle(kind byte, h handler) { s.handlers[kind] = h }

// The kinds of questions.
const (
	kindHeartbeat byte = iota + 1
	kindProposal
	kindSurvey
	kindPull
	kindCopy

	firstRouted byte = 32 // the first that routing asks
)

func (s *Seat) serveKinds() {
	s.handle(kindHeartbeat, s.serveHeartbeat)
	s.handle(kindProposal, s.serveProposal)
	s.handle(kindSurvey, s.serveSurvey)
	s.handle(kindPull, s.servePull)
	s.handle(kindCopy, s.serveCopy)
}

// Every question and answer begins with the sender's clock and the latest time that it has seen.
func (s *Seat) appendTimes(b []byte) []byte {
	clock := s.cfg.Clock()
	return binary.AppendVarint(binary.AppendVarint(b, clock), max(clock, s.floor.Load()))
}

// readTimes reads what appendTimes wrote and returns the sender's clock.
func (s *Seat) readTimes(r *reader) int64 {
	clock, latest := r.int(), r.int()
	if r.err == nil {
		s.observe(latest)
	}
	return clock
}

// observe has the time for commands not fall behind what a peer has shown. A time that is far ahead is a wrong clock's, and
// would move all of them.
func (s *Seat) observe(latest int64) {
	if latest > s.cfg.Clock()+maxOffset.Milliseconds() {
		return
	}
	for seen := s.floor.Load(); latest > seen && !s.floor.CompareAndSwap(seen, latest); {
		seen = s.floor.Load()
	}
}

// now returns the time for commands: never below what a peer with a good clock has shown.
func (s *Seat) now() int64 { return max(s.cfg.Clock(), s.floor.Load()) }

// Serve answers a peer's question.
func (s *Seat) Serve(ctx context.Context, from string, body []byte) ([]byte, error) {
	r := &reader{b: body}
	kind := r.byte()
	s.readTimes(r)
	h := s.handlers[kind]
	if r.err == nil && h == nil {
		r.fail(fmt.Sprintf("its kind %d is unknown", kind))
	}
	if s.life.Err() != nil {
		return nil, errOver
	}
	if r.err != nil {
		return nil, fmt.Errorf("question of %s: %w", from, r.err)
	}
	answer, err := h(ctx, from, r.b)
	if err != nil {
		return nil, err
	}
	return append(s.appendTimes(make([]byte, 0, 20+len(answer))), answer...), nil
}

// call asks a peer a question of a kind. It takes the peer's clock into account, as Serve does for who asks.
func (s *Seat) call(ctx context.Context, id string, ordered bool, kind byte, body []byte) ([]byte, error) {
	answer, _, err := s.ask(ctx, id, ordered, kind, body)
	return answer, err
}

// ask is call and returns the peer's clock as well.
func (s *Seat) ask(ctx context.Context, id string, ordered bool, kind byte, body []byte) ([]byte, int64, error) {
	b := append(s.appendTimes(append(make([]byte, 0, 21+len(body)), kind)), body...)
	answer, err := s.cfg.Peers.Call(ctx, id, ordered, b)
	if err != nil {
		return nil, 0, err
	}
	r := &reader{b: answer}
	clock := s.readTimes(r)
	if r.err != nil {
		return nil, 0, fmt.Errorf("answer of %s: %w", id, r.err)
	}
	return r.b, clock, nil
}

// view returns the accepted view, never nil.
func (s *Seat) view() *view { return s.accepted.Load() }

// viewChanged returns a channel that is closed at the next change of the view, of what is served, or of the permission. Take it before
// asking, to miss none.
func (s *Seat) viewChanged() <-chan struct{} { return *s.changed.Load() }

// broadcast closes the channel that viewChanged has returned. mu is held.
func (s *Seat) broadcast() {
	next := make(chan struct{})
	close(*s.changed.Swap(&next))
}

// members returns the member set without this host.
func (s *Seat) members() []Member {
	return slices.DeleteFunc(slices.Clone(s.cfg.Peers.Members()), func(m Member) bool { return m.ID == s.self.ID })
}

// majority returns how many hosts are more than half, and how many suffice here.
func (s *Seat) majority() (real, enough int) {
	size := max(len(s.cfg.Peers.Members()), s.cfg.Expect)
	real = size/2 + 1
	enough = real
	if s.cfg.faults.noMajority || s.cfg.ServeMinority && size == 2 {
		enough = 1
	}
	return real, enough
}

// save keeps the view and the claims. mu is held.
func (s *Seat) save(v *view) error {
	if s.cfg.Disk == nil {
		return nil
	}
	return s.cfg.Disk.Save(encodeKept(v, &s.claims, s.cfg.Machine))
}

// Settle keeps that nothing of the copies can be lost with the power. It is for after Stop, when nothing changes any more.
func (s *Seat) Settle() error {
	if s.cfg.Disk == nil {
		return nil
	}
	if err := s.sync(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.Disk.Save(encodeKept(s.view(), &s.claims, durable))
}
