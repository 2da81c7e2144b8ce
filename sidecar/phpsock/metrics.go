package phpsock

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// Metrics counts what the servers of a daemon answer.
type Metrics struct {
	requests   [wire.Unknown + 1]map[wire.Code]prometheus.Counter // by outcome; the empty code is "ok"
	refusals   *prometheus.CounterVec
	malformed  prometheus.Counter
	turnedAway prometheus.Counter
}

// NewMetrics makes the metrics and registers them with r.
func NewMetrics(r prometheus.Registerer) *Metrics {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "coatcheck_requests_total", Help: "Requests of the client protocol, by method and outcome (ok or the error's code).",
	}, []string{"method", "outcome"})
	m := &Metrics{
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coatcheck_session_writes_refused_total", Help: "Session writes that were refused, by reason.",
		}, []string{"reason"}),
		malformed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coatcheck_connections_malformed_total", Help: "Connections closed because what they sent was not the client protocol.",
		}),
		turnedAway: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coatcheck_connections_refused_total", Help: "Connections refused because limits.connections were open. A tenant's refusals are in coatcheck_tenant_refused_total.",
		}),
	}
	r.MustRegister(requests, m.refusals, m.malformed, m.turnedAway)
	for method := range m.requests {
		byCode := map[wire.Code]prometheus.Counter{"": requests.WithLabelValues(wire.Method(method).String(), "ok")}
		for _, code := range wire.Codes {
			byCode[code] = requests.WithLabelValues(wire.Method(method).String(), string(code))
		}
		m.requests[method] = byCode
	}
	return m
}

// count records one answered request.
func (m *Metrics) count(method wire.Method, err error) {
	if err == nil {
		m.requests[method][""].Inc()
		return
	}
	m.requests[method][asError(err).Code].Inc()
}
