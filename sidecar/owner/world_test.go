package owner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// world is hosts and the network between them, in memory and in a bubble's time.
type world struct {
	t       testing.TB
	mu      sync.Mutex // never held while anything waits
	rnd     *rand.Rand // guarded by mu
	hosts   []*host
	cut     map[[2]string]bool // from, to; guarded by mu
	delay   time.Duration      // of each way, at most; guarded by mu
	loss    float64            // of answers; guarded by mu
	pauses  float64            // of commands that are stopped between the check and the deed; guarded by mu
	expect  int
	set     func(*Config)
	acked   func(ctx context.Context, shard int, epoch uint64) // called when a change was acknowledged; nil: nobody wants to know
	routes  func(*host, *Seat, *store.Store)                   // before a Seat starts; nil: nothing routes
	events  map[string]int                                     // guarded by mu
	largest int                                                // bytes of a message; guarded by mu
}

// host is a machine: it has many lives.
type host struct {
	w       *world
	id      string
	skew    int64 // ms; guarded by w.mu
	disk    *ram
	journal *journal // nil: memory only
	absent  bool     // not of the member set; guarded by w.mu
	machine string   // the run of the machine; guarded by w.mu

	seat    *Seat                    // guarded by w.mu; nil: down
	store   *store.Store             // guarded by w.mu
	boot    int                      // guarded by w.mu
	stopped chan struct{}            // closed when the host goes on; nil: it runs; guarded by w.mu
	ordered map[string]chan struct{} // guarded by w.mu
	busy    bool                     // guarded by w.mu
}

// ram is a Disk in memory.
type ram struct {
	mu sync.Mutex
	b  []byte
}

// life is what a host may write to in one of its lives: nothing is written after its end.
type life struct {
	h    *host
	boot int
}

func (l life) over() bool {
	l.h.w.mu.Lock()
	defer l.h.w.mu.Unlock()
	return l.h.boot != l.boot || l.h.seat == nil
}

var errDead = errors.New("the process is dead")

func (l life) Load() ([]byte, error) { return l.h.disk.Load() }

func (l life) Save(b []byte) error {
	if l.over() {
		return errDead
	}
	return l.h.disk.Save(b)
}

func (l life) Ready() error { return nil }

func (l life) Sync() error { return l.Commit() }

func (l life) Commit() error {
	if l.over() {
		return errDead
	}
	return nil
}

func (l life) take(record []byte) {
	if !l.over() {
		l.h.journal.take(record)
	}
}

func (r *ram) Load() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.b), nil
}

func (r *ram) Save(b []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.b = slices.Clone(b)
	return nil
}

// journal keeps a store's records as a process that is killed leaves them.
type journal struct {
	mu      sync.Mutex
	records [][]byte
}

func (j *journal) take(record []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.records = append(j.records, slices.Clone(record))
}

// newWorld returns a world of n hosts, all of them down.
func newWorld(t testing.TB, n int, seed uint64, set func(*Config)) *world {
	w := &world{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), cut: make(map[[2]string]bool), delay: time.Millisecond,
		expect: n, set: set, events: make(map[string]int),
	}
	for i := range n {
		w.hosts = append(w.hosts, &host{w: w, id: string(rune('a' + i)), disk: &ram{}, journal: &journal{}, ordered: make(map[string]chan struct{})})
	}
	return w
}

// random calls f with the world's source of randomness.
func (w *world) random(f func(*rand.Rand)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w.rnd)
}

// log writes a line of what happens, beside what the hosts say, if that is wanted.
func (w *world) log(format string, args ...any) {
	if os.Getenv("COATCHECK_OWNER_LOG") != "" {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Info("*** " + fmt.Sprintf(format, args...))
	}
}

func (w *world) count(event string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events[event]++
}

// start begins a life of the host.
func (h *host) start() {
	h.w.log("%s starts", h.id)
	h.w.mu.Lock()
	h.boot++
	l, machine := life{h, h.boot}, "machine "+h.machine
	h.w.mu.Unlock()
	s := store.New(store.Limits{})
	cfg := Config{Peers: h, Store: s, Clock: h.clock, Expect: h.w.expect, Machine: machine}
	if os.Getenv("COATCHECK_OWNER_LOG") != "" {
		cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("host", h.id)
	}
	if h.journal != nil {
		for _, record := range h.journal.records {
			if err := s.Restore(record); err != nil {
				h.w.t.Errorf("replay: %v", err)
			}
		}
		s.OnChange(l.take)
		cfg.Keeper, cfg.Disk = l, l
	}
	cfg.faults.between = h.between
	if h.w.set != nil {
		h.w.set(&cfg)
	}
	seat, err := New(cfg)
	if err != nil {
		h.w.t.Fatal(err)
	}
	if h.w.routes != nil {
		h.w.routes(h, seat, s)
	}
	h.w.mu.Lock()
	h.seat, h.store = seat, s
	h.w.mu.Unlock()
	seat.Start()
}

// kill ends the life of the host: as kill -9, what it was about to do is not done.
func (h *host) kill() {
	h.goOn()
	h.w.log("%s dies", h.id)
	h.w.mu.Lock()
	s := h.seat
	h.seat = nil
	h.w.mu.Unlock()
	if s != nil {
		s.Stop()
	}
}

// halt is SIGSTOP.
func (h *host) halt() {
	h.w.log("%s stops", h.id)
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	if h.stopped == nil {
		h.stopped = make(chan struct{})
	}
}

// goOn is SIGCONT.
func (h *host) goOn() {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	if h.stopped != nil {
		close(h.stopped)
		h.stopped = nil
	}
}

// running waits while the host is stopped. It returns the host's present life, nil when it is down.
func (h *host) running() *Seat {
	for {
		h.w.mu.Lock()
		stopped, s := h.stopped, h.seat
		h.w.mu.Unlock()
		if stopped == nil {
			return s
		}
		<-stopped
	}
}

// between is called between the check of a permission and the deed: the worst moment for being stopped.
func (h *host) between() {
	var d time.Duration
	h.w.random(func(r *rand.Rand) {
		if r.Float64() < h.w.pauses {
			d = time.Duration(r.Int64N(int64(6 * time.Second)))
		}
	})
	if d > 0 {
		h.w.count("pause in a command")
		time.Sleep(d)
	}
	h.running()
}

func (h *host) clock() int64 {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	return time.Now().UnixMilli() + h.skew
}

// adjust sets the clock forward.
func (h *host) adjust(ms int64) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.skew += ms
}

// The host as Peers.

func (h *host) member() Member {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	return Member{ID: h.id, Boot: fmt.Sprintf("%s%d", h.id, h.boot)}
}

func (h *host) Self() Member { return h.member() }

func (h *host) Members() []Member {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	var members []Member
	for _, o := range h.w.hosts {
		if !o.absent {
			members = append(members, Member{ID: o.id})
		}
	}
	return members
}

func (h *host) OnChange(func()) {}

func (w *world) host(id string) *host {
	return w.hosts[slices.IndexFunc(w.hosts, func(h *host) bool { return h.id == id })]
}

// way is one way of a message. It returns false when the message is lost.
func (w *world) way(from, to string) bool {
	w.mu.Lock()
	lost := w.cut[[2]string{from, to}]
	d := time.Duration(w.rnd.Int64N(int64(w.delay) + 1))
	w.mu.Unlock()
	time.Sleep(d)
	return !lost
}

func (h *host) Call(ctx context.Context, id string, ordered bool, body []byte) ([]byte, error) {
	type answer struct {
		b   []byte
		err error
	}
	life := h.running()
	if life == nil || ctx.Err() != nil {
		return nil, ErrNotSent
	}
	to := h.w.host(id)
	answers := make(chan answer, 1)
	body = slices.Clone(body)
	done := func() {}
	var turn chan struct{}
	if ordered {
		h.w.mu.Lock()
		turn = h.ordered[id]
		next := make(chan struct{})
		h.ordered[id] = next
		h.w.mu.Unlock()
		done = func() { close(next) }
	}
	go func() {
		served := func() (b []byte, err error, lost bool) {
			defer done()
			arrived := h.w.way(h.id, id)
			if turn != nil {
				<-turn
			}
			s := to.running()
			if !arrived || s == nil {
				return nil, nil, true
			}
			b, err = s.Serve(context.WithoutCancel(ctx), h.id, body)
			h.w.mu.Lock()
			h.w.largest = max(h.w.largest, len(b), len(body))
			h.w.mu.Unlock()
			return b, err, to.running() != s
		}
		b, err, lost := served()
		if lost || !h.w.way(id, h.id) {
			return
		}
		h.w.random(func(r *rand.Rand) { lost = r.Float64() < h.w.loss })
		if !lost {
			answers <- answer{slices.Clone(b), err}
		}
	}()
	select {
	case a := <-answers:
		if h.running() != life {
			return nil, ErrNoAnswer
		}
		if a.err != nil {
			return nil, errors.Join(ErrNoAnswer, a.err)
		}
		return a.b, nil
	case <-ctx.Done():
		return nil, ErrNoAnswer
	}
}

// do has a command decided, asked at a host, as routing does: the owner by that host's view, for two seconds.
func (w *world) do(ctx context.Context, at *host, c store.Command) (store.Result, error) {
	began := time.Now()
	shard := store.ShardOfKey(c.Key)
	for {
		s := at.running()
		if s == nil {
			return store.Result{}, arbiter.ErrNotDecided
		}
		v := s.view()
		if owner := v.owner(shard); owner != "" {
			r, err := w.decideAt(ctx, at, w.host(owner), v.id, c, shard)
			if err == nil && r.Changed && w.acked != nil {
				w.acked(ctx, shard, v.id.Epoch)
			}
			if !errors.Is(err, arbiter.ErrNotDecided) {
				return r, err
			}
		}
		if time.Since(began) > 2*time.Second {
			return store.Result{}, arbiter.ErrNotDecided
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// decideAt sends a command to its owner, over the network.
func (w *world) decideAt(ctx context.Context, from, to *host, id ViewID, c store.Command, shard int) (store.Result, error) {
	if from != to && !w.way(from.id, to.id) {
		time.Sleep(time.Second)
		return store.Result{}, arbiter.ErrUnreachable
	}
	s := to.running()
	if s == nil {
		return store.Result{}, arbiter.ErrNotDecided // nothing is connected
	}
	r, err := s.decide(ctx, id, &c, shard)
	r.Value = slices.Clone(r.Value)
	if to.running() != s || from != to && !w.way(to.id, from.id) {
		time.Sleep(time.Second)
		return store.Result{}, arbiter.ErrUnreachable
	}
	return r, err
}

// alive returns the hosts that are up and not stopped.
func (w *world) alive() (hosts []*host) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hosts {
		if h.seat != nil && h.stopped == nil {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// settled says whether all hosts that are alive have one view, of all of them, and each shard is served and has a whole copy. It
// says what is missing.
func (w *world) settled() string {
	hosts := w.alive()
	if len(hosts) == 0 {
		return "nobody is alive"
	}
	v := hosts[0].seat.view()
	for _, h := range hosts {
		if o := h.seat.view(); o.id != v.id {
			return fmt.Sprintf("%s has view %v, %s has %v", hosts[0].id, v.id, h.id, o.id)
		}
		if m, found := v.member(h.id); !found || m.Cold || m.Boot != h.member().Boot {
			return fmt.Sprintf("%s is not (or as %+v) a member of %v", h.id, m, v.id)
		}
	}
	if len(v.members) != len(hosts) {
		return fmt.Sprintf("view %v has %d members, %d are alive", v.id, len(v.members), len(hosts))
	}
	for shard := range store.Shards {
		o := w.host(v.owner(shard)).seat
		if o.served[shard].Load() != v.id.Epoch {
			return fmt.Sprintf("shard %d is not served by %s", shard, v.owner(shard))
		}
		if p := o.permit.Load(); p.view.id != v.id || o.cfg.Clock() >= p.until {
			return fmt.Sprintf("%s is not permitted", v.owner(shard))
		}
		if r := v.runnerUp(shard); r != "" {
			s := w.host(r).seat
			s.mu.Lock()
			c := s.claims[shard]
			s.mu.Unlock()
			if c != (claim{v.id.Epoch, asRunnerUp}) {
				return fmt.Sprintf("%s has %+v of shard %d in view %v", r, c, shard, v.id)
			}
		}
	}
	return ""
}

// settle waits until the world is settled, and fails after a time.
func (w *world) settle(limit time.Duration) bool {
	w.t.Helper()
	began := time.Now()
	for {
		missing := w.settled()
		if missing == "" {
			return true
		}
		if time.Since(began) > limit {
			w.t.Errorf("after %v: %s", limit, missing)
			return false
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// end kills all hosts.
func (w *world) end() {
	for _, h := range w.hosts {
		h.kill()
	}
	time.Sleep(time.Minute) // what is on its way arrives
}

// inWorld runs f in a bubble, in a world of n hosts that have settled.
func inWorld(t *testing.T, n int, seed uint64, set func(*Config), f func(*testing.T, *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, n, seed, set)
		for _, h := range w.hosts {
			h.start()
		}
		defer w.end()
		if w.settle(30 * time.Second) {
			f(t, w)
		}
	})
}
