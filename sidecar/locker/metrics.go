package locker

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// Metrics counts what a Locker does.
type Metrics struct {
	Waits *prometheus.HistogramVec // by outcome
	Hold  prometheus.Histogram
	Swept prometheus.Counter
	Lost  prometheus.Counter
}

// NewMetrics makes the metrics and registers them with r.
func NewMetrics(r prometheus.Registerer) *Metrics {
	seconds := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600}
	m := &Metrics{
		Waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "coatcheck_lock_wait_seconds", Buckets: seconds,
			Help: "How long contended locks were waited for, by outcome (granted, busy, queue_full, dropped, failed).",
		}, []string{"outcome"}),
		Hold: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "coatcheck_lock_hold_seconds", Buckets: seconds,
			Help: "How long bound locks were held, from grant to release, loss or the client's end.",
		}),
		Swept: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coatcheck_locks_swept_total", Help: "Locks released because their client or its request ended without releasing them.",
		}),
		Lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coatcheck_locks_lost_total", Help: "Bound locks that ended while their client lived: held for too long, or their lease ran out.",
		}),
	}
	r.MustRegister(m.Waits, m.Hold, m.Swept, m.Lost)
	return m
}

// waited records one wait.
func (m *Metrics) waited(d time.Duration, r store.Result, err error) {
	outcome := "granted"
	switch {
	case errors.Is(err, ErrQueueFull):
		outcome = "queue_full"
	case errors.Is(err, ErrClosed), errors.Is(err, ErrShuttingDown), errors.Is(err, context.Canceled):
		outcome = "dropped"
	case err != nil:
		outcome = "failed"
	case r.Status == store.Busy:
		outcome = "busy"
	}
	m.Waits.WithLabelValues(outcome).Observe(d.Seconds())
}
