package owner

import "github.com/prometheus/client_golang/prometheus"

// Metrics tell how a Seat fares.
type Metrics struct {
	views     prometheus.Counter
	epoch     prometheus.Gauge
	ready     prometheus.Gauge
	permitted prometheus.Gauge
	degraded  *prometheus.CounterVec // by why
	unknown   prometheus.Counter
	alone     prometheus.Counter
	taken     *prometheus.CounterVec // by source
	empty     prometheus.Counter
	older     prometheus.Counter
	resyncs   prometheus.Counter
	surveys   prometheus.Counter
	offset    *prometheus.GaugeVec // by peer
}

// NewMetrics makes the metrics and registers them with r.
func NewMetrics(r prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "coatcheck_owner_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "coatcheck_owner_" + name, Help: help})
	}
	m := &Metrics{
		views:     counter("view_changes_total", "Views that this host has accepted."),
		epoch:     gauge("view_epoch", "Epoch of the accepted view."),
		ready:     gauge("members_ready", "Hosts that are heard, this one included, and ready for a view."),
		permitted: gauge("permitted", "1 while this host may decide: a majority agrees with its view."),
		degraded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coatcheck_owner_degraded_total",
			Help: "Changes of sessions and locks that were acknowledged without a copy, by why: the runner-up was late (timeout), its copy is not whole (no_copy), or there is none (no_runner_up).",
		}, []string{"why"}),
		unknown: counter("unknown_total", "Commands that were applied while the permission to decide ended: their outcome is unknown."),
		alone:   counter("decided_alone_total", "Commands that were decided without a majority, for minority is serve."),
		taken: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coatcheck_owner_shards_taken_total",
			Help: "Shards that this host began to serve, by where the copy came from: the owner before (owner), a runner-up (runner_up), this host as it was the owner before (kept), this host's own copy (own), or nowhere (none).",
		}, []string{"source"}),
		empty:   counter("shards_empty_total", "Shards that were begun empty although members have copies of others."),
		older:   counter("shards_older_total", "Shards that were begun from a copy that may lack what was decided last, for no newer one was found."),
		resyncs: counter("copies_begun_total", "Copies of shards that were begun anew at the runner-up."),
		surveys: counter("surveys_total", "Times that the hosts were asked for the epochs of their copies."),
		offset: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coatcheck_owner_clock_offset_seconds", Help: "How far a peer's clock is ahead of this host's.",
		}, []string{"peer"}),
	}
	r.MustRegister(m.views, m.epoch, m.ready, m.permitted, m.degraded, m.unknown, m.alone, m.taken, m.empty, m.older, m.resyncs, m.surveys, m.offset)
	for _, why := range []string{degradedTimeout, degradedNoCopy, degradedNoRunnerUp} {
		m.degraded.WithLabelValues(why)
	}
	for _, source := range []string{fromOwner, fromRunnerUp, fromKept, fromOwn, fromNone} {
		m.taken.WithLabelValues(source)
	}
	return m
}

// Why a change was acknowledged without a copy.
const (
	degradedTimeout    = "timeout"
	degradedNoCopy     = "no_copy"
	degradedNoRunnerUp = "no_runner_up"
)

// Where the copy of a shard that is served came from.
const (
	fromOwner    = "owner"
	fromRunnerUp = "runner_up"
	fromKept     = "kept"
	fromOwn      = "own"
	fromNone     = "none"
)
