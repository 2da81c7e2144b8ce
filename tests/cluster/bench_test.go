package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/client"
)

// contender is where cycles are measured: sessions and the host that is asked for them.
type contender struct {
	name     string
	host     *host
	sessions []string
	taken    []time.Duration
	rates    []float64
}

// contenders are one daemon that is in no cluster, and a host of three, asked for its own sessions and for others'.
func contenders(b *testing.B) []*contender {
	b.Helper()
	const sessions = 32
	alone, three := form(b, plan{size: 1, alone: true}), form(b, plan{})
	all := []*contender{
		{name: "alone", host: alone.hosts[0]}, {name: "local", host: three.hosts[0]}, {name: "remote", host: three.hosts[0]},
	}
	for range sessions {
		all[0].sessions = append(all[0].sessions, randomHex())
	}
	for len(all[1].sessions) < sessions || len(all[2].sessions) < sessions {
		s := three.sessions(1)[0]
		c := all[2]
		if s.owner == three.hosts[0] {
			c = all[1]
		}
		if len(c.sessions) < sessions {
			c.sessions = append(c.sessions, s.id)
		}
	}
	return all
}

// connect returns a client of the contender's host.
func (c *contender) connect(b *testing.B) *client.Client {
	b.Helper()
	conn, err := c.host.dial(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return conn
}

// cycle opens a session and stores data in it.
func cycle(conn *client.Client, id string, data []byte) error {
	token := randomHex()
	answer, err := conn.Call(context.Background(), "session.open", pairs("id", id, "token", token, "lease_ms", 30_000, "wait_ms", 30_000))
	if err != nil {
		return err
	}
	answer, err = conn.Call(context.Background(), "session.commit", pairs("id", id, "token", token,
		"fence", answer.(map[string]any)["fence"], "data", data, "ttl_ms", 1_440_000, "release", true))
	if err == nil && answer.(map[string]any)["stored"] != true {
		err = fmt.Errorf("commit: %v", answer)
	}
	return err
}

var benchSizes = []struct {
	name string
	size int
}{{"4KiB", 4 << 10}, {"2MiB", 2 << 20}}

// BenchmarkSessionCycle is session.open and session.commit by one client. The contenders take turns, cycle by cycle, so that a busy machine is so
// for all of them.
func BenchmarkSessionCycle(b *testing.B) {
	all := contenders(b)
	for _, x := range benchSizes {
		b.Run(x.name, func(b *testing.B) {
			data := make([]byte, x.size)
			conns := make([]*client.Client, len(all))
			for i, c := range all {
				conns[i], c.taken = c.connect(b), nil
			}
			for n := 0; b.Loop(); n++ {
				for i, c := range all {
					began := time.Now()
					if err := cycle(conns[i], c.sessions[n%len(c.sessions)], data); err != nil {
						b.Fatal(c.name, err)
					}
					c.taken = append(c.taken, time.Since(began))
				}
			}
			for _, c := range all {
				slices.Sort(c.taken)
				b.ReportMetric(float64(middle(c.taken).Microseconds()), c.name+"-µs")
				b.ReportMetric(float64(c.taken[len(c.taken)*99/100].Microseconds()), c.name+"-p99-µs")
			}
			for _, c := range all[1:] {
				b.ReportMetric(float64(middle(c.taken))/float64(middle(all[0].taken)), c.name+"/alone")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func middle[T any](sorted []T) T { return sorted[len(sorted)/2] }

// BenchmarkSessionThroughput is the same by 16 clients at once. The contenders take turns of a fifth of a second.
func BenchmarkSessionThroughput(b *testing.B) {
	const clients, turn = 16, 200 * time.Millisecond
	all := contenders(b)
	data := make([]byte, 4<<10)
	conns := make([][]*client.Client, len(all))
	for i, c := range all {
		for range clients {
			conns[i] = append(conns[i], c.connect(b))
		}
	}
	for b.Loop() {
		for i, c := range all {
			c.rates = append(c.rates, c.rush(b, conns[i], data, turn))
		}
	}
	ratios := make([][]float64, len(all))
	for i, c := range all {
		for round, rate := range c.rates {
			ratios[i] = append(ratios[i], rate/all[0].rates[round])
		}
	}
	for i, c := range all {
		slices.Sort(c.rates)
		slices.Sort(ratios[i])
		b.ReportMetric(middle(c.rates), c.name+"-cycles/s")
		if i > 0 {
			b.ReportMetric(middle(ratios[i]), c.name+"/alone")
		}
	}
	b.ReportMetric(0, "ns/op")
}

// rush has all clients make cycles for a while, each on sessions of its own, and returns how many there were in a second.
func (c *contender) rush(b *testing.B, conns []*client.Client, data []byte, long time.Duration) float64 {
	b.Helper()
	var done atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for i, conn := range conns {
		all.Go(func() {
			for n := 0; time.Since(began) < long; n++ {
				if err := cycle(conn, c.sessions[(i+n*len(conns))%len(c.sessions)], data); err != nil {
					b.Error(c.name, err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}
