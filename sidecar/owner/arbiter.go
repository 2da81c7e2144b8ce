package owner

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// The kinds of questions that routing asks.
const (
	kindCommand = firstRouted + iota
	kindWake
)

// decider is what routing needs of this host's Seat.
type decider interface {
	id() string
	view() *view
	viewChanged() <-chan struct{}
	decide(ctx context.Context, id ViewID, c *store.Command, shards ...int) (store.Result, error)
	call(ctx context.Context, id string, ordered bool, kind byte, body []byte) ([]byte, error)
	handle(kind byte, h handler)
	now() int64
}

// seatHost is a Seat as routing uses it.
type seatHost struct{ *Seat }

func (h seatHost) id() string { return h.self.ID }

// Routing is what an Arbiter needs to know.
type Routing struct {
	Store    *store.Store  // this host's
	Patience time.Duration // how long to try again what nobody decided; 0: 2 s
	Answer   time.Duration // how long an owner may take to answer; 0: 2 s
	Log      *slog.Logger
	Metrics  *RoutingMetrics // nil: nobody wants them
}

// Arbiter has each command decided by the owner of its key, here or on another host.
//
// # Guarantees
//
// An owner decides what it is asked by its own view and never asks another. What it refuses is asked anew, of the owner by the
// view of then, for a while. Nothing is ever decided here because the owner does not answer. A command that was sent and not answered is sent
// again only if its token makes the repetition harmless, and its outcome is unknown unless a later answer settles it.
//
// # Does not guarantee
//
// That a command on keys of several owners is one step, or that a list shows one moment. Those that must be one step are
// refused with [arbiter.ErrSeveralOwners].
type Arbiter struct {
	host   decider
	cfg    Routing
	m      *RoutingMetrics
	waking waking
}

var _ arbiter.Arbiter = (*Arbiter)(nil)

// NewArbiter returns the arbiter that asks the owners as s sees them, and answers for s when peers ask. It must be called before s is started.
func NewArbiter(s *Seat, cfg Routing) *Arbiter { return newArbiter(seatHost{s}, cfg) }

func newArbiter(h decider, cfg Routing) *Arbiter {
	cfg.Patience = cmp.Or(cfg.Patience, 2*time.Second)
	cfg.Answer = cmp.Or(cfg.Answer, 2*time.Second)
	if cfg.Metrics == nil {
		cfg.Metrics = NewRoutingMetrics(prometheus.NewRegistry())
	}
	a := &Arbiter{host: h, cfg: cfg, m: cfg.Metrics}
	a.waking.init()
	h.handle(kindCommand, a.serveCommand)
	h.handle(kindWake, a.serveWake)
	return a
}

// RoutingMetrics count what is asked of other hosts.
type RoutingMetrics struct {
	asked *prometheus.CounterVec // by outcome
	again prometheus.Counter
	wakes *prometheus.CounterVec // by outcome
}

// The outcomes of what was asked of another host.
const (
	outcomeDecided    = "decided"
	outcomeNotDecided = "not_decided"
	outcomeUnknown    = "unknown"
)

// NewRoutingMetrics makes the metrics and registers them with r.
func NewRoutingMetrics(r prometheus.Registerer) *RoutingMetrics {
	m := &RoutingMetrics{
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coatcheck_owner_asked_total",
			Help: "Commands that another host was asked to decide, by outcome (decided, not_decided: it did nothing, unknown: it did not answer).",
		}, []string{"outcome"}),
		again: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coatcheck_owner_asked_again_total", Help: "Commands that were tried again, for nobody decided them or their repetition is harmless.",
		}),
		wakes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coatcheck_owner_wakes_total", Help: "Wake-ups for those who wait on other hosts, by outcome (sent, dropped: too many were on their way).",
		}, []string{"outcome"}),
	}
	r.MustRegister(m.asked, m.again, m.wakes)
	for _, outcome := range []string{outcomeDecided, outcomeNotDecided, outcomeUnknown} {
		m.asked.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"sent", "dropped"} {
		m.wakes.WithLabelValues(outcome)
	}
	return m
}

// Do has the command decided by its owner, and sets its time to that of the decision. It returns an error that wraps
// arbiter.ErrNotDecided, arbiter.ErrUnreachable or arbiter.ErrSeveralOwners, or this host's journal's.
func (a *Arbiter) Do(ctx context.Context, c *store.Command) (store.Result, error) {
	switch c.Op {
	case store.OpSweep:
		return a.sweep(c), nil
	case store.OpBatch:
		if c.OneStep || c.If == store.IfAbsent {
			return a.persist(ctx, c)
		}
		return a.batch(ctx, c)
	case store.OpRename:
		return a.persist(ctx, c)
	case store.OpScan:
		return a.scan(ctx, c)
	case store.OpFlush, store.OpRandomKey, store.OpListLocks, store.OpListHeld, store.OpListSession, store.OpListSpaces, store.OpStats:
		return a.gather(ctx, c)
	}
	return a.persist(ctx, c)
}

// sweepLag is how much later than its time an entry is dropped from a copy: its owner, whose clock is another, may have made it last longer
// in the last moment, and the record of that tells no more than what has changed.
const sweepLag = time.Minute

// sweep drops what has expired in one shard here. Every host sweeps what it has.
func (a *Arbiter) sweep(c *store.Command) store.Result {
	c.Now = a.host.now()
	if a.host.view().owner(int(c.Cursor%store.Shards)) != a.host.id() {
		c.Now -= sweepLag.Milliseconds()
	}
	return a.cfg.Store.Apply(c)
}

// decider returns the one owner of the command's keys.
func (v *view) decider(c *store.Command) (string, error) {
	if c.SingleKey() {
		return v.owner(store.ShardOfKey(c.Key)), nil
	}
	return v.ownerOf(c.Shards())
}

// ownerOf returns the one owner of some shards.
func (v *view) ownerOf(shards store.ShardSet) (string, error) {
	first, one := "", true
	n := 0
	for shard := range shards.All() {
		o := v.owner(shard)
		if n++; n == 1 {
			first = o
		}
		one = one && o == first
	}
	if !one {
		return "", fmt.Errorf("%d shards: %w", n, arbiter.ErrSeveralOwners)
	}
	return first, nil
}
