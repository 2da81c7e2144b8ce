package owner

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/cluster"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// town is hosts that route, each with a store, on Seats that are no more than a view: who owns what is what the test says, and what
// becomes of each message too. It runs in a bubble.
type town struct {
	t      testing.TB
	mu     sync.RWMutex // held, to read, by those who decide
	hosts  map[string]*resident
	epoch  uint64
	fate   func(from, to string, kind byte) fate // nil: all is delivered; guarded by mu
	served map[string]int                        // commands that each host was asked by others; guarded by mu
}

// fate is what becomes of a question.
type fate int

const (
	delivered fate = iota
	notSent
	lostQuestion
	lostAnswer
	tooLarge
)

// resident is one host of a town.
type resident struct {
	town     *town
	name     string
	arb      *Arbiter
	store    *store.Store
	current  *view // guarded by town.mu
	why      whyNot
	fails    error         // of what is decided; guarded by town.mu
	change   chan struct{} // guarded by town.mu
	handlers map[byte]handler
}

// hop is how long a message takes one way.
const hop = time.Millisecond

func newTown(t testing.TB, names ...string) *town {
	w := &town{t: t, hosts: make(map[string]*resident), served: make(map[string]int)}
	for _, n := range names {
		h := &resident{town: w, name: n, store: store.New(store.Limits{}), current: newView(0, nil), change: make(chan struct{}), handlers: make(map[byte]handler)}
		h.arb = newArbiter(h, Routing{Store: h.store, Log: slog.New(slog.DiscardHandler)})
		w.hosts[n] = h
	}
	w.move(names...)
	return w
}

// inTown runs a test in a bubble, in a town of hosts that own what is theirs.
func inTown(t *testing.T, names []string, f func(*testing.T, *town)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, newTown(t, names...))
		time.Sleep(time.Minute) // what is on its way arrives
	})
}

var three = []string{"a", "b", "c"}

// move has all hosts accept the view of the named ones. Shards that move are carried over.
func (w *town) move(names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.epoch++
	var members []seated
	for _, n := range names {
		members = append(members, seated{ID: n, Boot: n})
	}
	next := newView(w.epoch, members)
	for shard := range store.Shards {
		for _, h := range w.hosts {
			from, to := h.current.owner(shard), next.owner(shard)
			if h.name != from || to == "" || to == from {
				continue
			}
			h.store.Copy(shard, func(record []byte) {
				if err := w.hosts[to].store.Adopt(record); err != nil {
					w.t.Errorf("shard %d, from %s to %s: %v", shard, from, to, err)
				}
			})
		}
	}
	for _, h := range w.hosts {
		h.current = next
		close(h.change)
		h.change = make(chan struct{})
	}
}

// ill says what a host answers instead of deciding; 0: it decides.
func (w *town) ill(name string, why whyNot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[name].why = why
}

// failing has a host answer with an error.
func (w *town) failing(name string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[name].fails = err
}

// messages decides what becomes of questions from here on.
func (w *town) messages(f func(from, to string, kind byte) fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fate = f
}

// unanswered lets nothing that a host is asked be answered: lost on the way there, or on the way back.
func (w *town) unanswered(name string, how fate) {
	w.messages(func(_, to string, _ byte) fate {
		if to == name {
			return how
		}
		return delivered
	})
}

func (w *town) asked(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.served[name]
}

// keyOf returns the nth key that a host owns.
func (w *town) keyOf(name string, nth int) []byte {
	w.mu.RLock()
	defer w.mu.RUnlock()
	v := w.hosts[name].current
	for i := 0; ; i++ {
		key := fmt.Appendf(nil, "key%d", i)
		if v.owner(store.ShardOfKey(key)) != name {
			continue
		}
		if nth--; nth < 0 {
			return key
		}
	}
}

// do has a command decided, asked at a host.
func (w *town) do(at string, c store.Command) (store.Result, error) {
	return w.hosts[at].arb.Do(context.Background(), &c)
}

// must is do of what must be decided.
func (w *town) must(at string, c store.Command) store.Result {
	w.t.Helper()
	r, err := w.do(at, c)
	if err != nil {
		w.t.Fatalf("%+v: %v", c, err)
	}
	return r
}

func (h *resident) id() string { return h.name }

func (h *resident) view() *view {
	h.town.mu.RLock()
	defer h.town.mu.RUnlock()
	return h.current
}

func (h *resident) viewChanged() <-chan struct{} {
	h.town.mu.RLock()
	defer h.town.mu.RUnlock()
	return h.change
}

func (h *resident) handle(kind byte, f handler) { h.handlers[kind] = f }

func (h *resident) now() int64 { return time.Now().UnixMilli() }

func (h *resident) decide(_ context.Context, id ViewID, c *store.Command, shards ...int) (store.Result, error) {
	h.town.mu.RLock()
	defer h.town.mu.RUnlock()
	if h.why != 0 {
		return store.Result{}, &refusal{h.why, h.current.id}
	}
	if h.fails != nil {
		return store.Result{}, h.fails
	}
	for _, shard := range shards {
		if id != h.current.id || h.current.owner(shard) != h.name {
			return store.Result{}, &refusal{notMine, h.current.id}
		}
	}
	if len(shards) == 0 && id != h.current.id {
		return store.Result{}, &refusal{notMine, h.current.id}
	}
	c.Now = h.now()
	return h.store.Apply(c), nil
}

func (h *resident) call(ctx context.Context, id string, _ bool, kind byte, body []byte) ([]byte, error) {
	w := h.town
	w.mu.Lock()
	to, what := w.hosts[id], delivered
	if w.fate != nil {
		what = w.fate(h.name, id, kind)
	}
	if what == delivered && kind == kindCommand {
		w.served[id]++
	}
	w.mu.Unlock()
	if what == notSent {
		return nil, ErrNotSent
	}
	if what == tooLarge {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, cluster.ErrTooLarge)
	}
	if what == lostQuestion {
		<-ctx.Done()
		return nil, ErrNoAnswer
	}
	time.Sleep(hop)
	answer, err := to.handlers[kind](context.Background(), h.name, body)
	time.Sleep(hop)
	if what == lostAnswer {
		<-ctx.Done()
	}
	if err != nil || ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return answer, nil
}

// locals are arbiters that decide everything where they are asked, which is what routing is not.
func locals(n int) (arbs []arbiter.Arbiter) {
	for range n {
		arbs = append(arbs, arbiter.NewLocal(store.New(store.Limits{}), func() int64 { return time.Now().UnixMilli() }, nil))
	}
	return arbs
}

func (w *town) arbiters(names ...string) (arbs []arbiter.Arbiter) {
	for _, n := range names {
		arbs = append(arbs, w.hosts[n].arb)
	}
	return arbs
}
