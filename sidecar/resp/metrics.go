package resp

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts what the endpoint answers.
type Metrics struct {
	commands   *prometheus.CounterVec        // by name and outcome
	served     map[string]prometheus.Counter // those of outcome ok, by name
	malformed  prometheus.Counter
	turnedAway prometheus.Counter
}

// NewMetrics makes the metrics and registers them with r.
func NewMetrics(r prometheus.Registerer) *Metrics {
	commands := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "coatcheck_resp_commands_total", Help: "Commands of the Redis protocol, by name and outcome (ok or the error's first word).",
	}, []string{"command", "outcome"})
	m := &Metrics{
		commands: commands,
		served:   make(map[string]prometheus.Counter),
		malformed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coatcheck_resp_connections_malformed_total", Help: "Connections closed because what they sent was not the Redis protocol, or too much.",
		}),
		turnedAway: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coatcheck_resp_connections_refused_total", Help: "Connections refused because redis.connections were open.",
		}),
	}
	for name := range newTable() {
		m.served[name] = commands.WithLabelValues(name, "ok")
	}
	r.MustRegister(commands, m.malformed, m.turnedAway)
	return m
}

// count records one answered command, nil for one that is not in the table, with the class of its error, if there was one.
func (m *Metrics) count(cmd *command, class string) {
	switch {
	case class == "":
		cmd.served.Inc()
	case cmd == nil:
		m.commands.WithLabelValues("unknown", strings.ToLower(class)).Inc()
	default:
		m.commands.WithLabelValues(cmd.name, strings.ToLower(class)).Inc()
	}
}
