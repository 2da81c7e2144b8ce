package app

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
)

// How much garbage may lie about before it is collected: a fixed amount while the heap is small, so that a small daemon
// does not collect all the time, and a share of it when it is large, so that a million sessions do not take twice their memory.
const (
	garbage    = 64 << 20 // bytes
	minPercent = 30
	maxPercent = 800
)

// collector sets the garbage collector's pace to the size of the heap, unless GOGC is set.
type collector struct {
	live    []metrics.Sample
	percent int
}

func newCollector() *collector {
	c := &collector{live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	c.adjust()
	return c
}

func (c *collector) adjust() {
	if os.Getenv("GOGC") != "" {
		return
	}
	metrics.Read(c.live)
	live := max(1<<20, c.live[0].Value.Uint64())
	if percent := int(min(max(garbage*100/live, minPercent), maxPercent)); percent != c.percent {
		debug.SetGCPercent(percent)
		c.percent = percent
	}
}
