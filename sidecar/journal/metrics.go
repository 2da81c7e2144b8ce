package journal

import "github.com/prometheus/client_golang/prometheus"

// Metrics tell how a journal fares.
type Metrics struct {
	writable prometheus.Gauge
	written  prometheus.Counter
	failures *prometheus.CounterVec
	fsync    prometheus.Histogram
	snapshot prometheus.Histogram
	replay   prometheus.Gauge
	bytes    *prometheus.GaugeVec
}

// NewMetrics makes the metrics and registers them with r.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		writable: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "coatcheck_journal_writable", Help: "1 while the journal can be written, 0 while changes are refused because it cannot.",
		}),
		written: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coatcheck_journal_written_bytes_total", Help: "Bytes written to segments of the journal.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coatcheck_journal_failures_total", Help: "Failed attempts to write the journal, by what was tried (write, fsync or snapshot).",
		}, []string{"what"}),
		fsync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "coatcheck_journal_fsync_seconds", Help: "How long an fsync of a segment took.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 3, 11), // to 6 s
		}),
		snapshot: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "coatcheck_journal_snapshot_seconds", Help: "How long a snapshot took, of those that were finished.",
			Buckets: prometheus.ExponentialBuckets(0.01, 3, 10), // to 200 s
		}),
		replay: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "coatcheck_journal_replay_seconds", Help: "How long the journal's replay took when the daemon started.",
		}),
		bytes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coatcheck_journal_bytes", Help: "Size of the journal's files: of the last snapshot, and of the segments that complete it.",
		}, []string{"of"}),
	}
	r.MustRegister(m.writable, m.written, m.failures, m.fsync, m.snapshot, m.replay, m.bytes)
	for _, what := range []string{"write", "fsync", "snapshot"} {
		m.failures.WithLabelValues(what)
	}
	return m
}
