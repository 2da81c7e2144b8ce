package journal

import (
	"bytes"
	"fmt"
	"syscall"
	"testing"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// BenchmarkReplay is the replay of 200,000 sessions of 1 KiB. cpu-ms/op is the processors' time, which other load on the machine
// hardly changes.
func BenchmarkReplay(b *testing.B) {
	const sessions = 200_000
	log, _ := quiet()
	cfg := Config{Dir: b.TempDir(), Values: true, Fsync: Never, Log: log}
	s := store.New(store.Limits{})
	j := New(cfg, s)
	if err := j.Open(); err != nil {
		b.Fatal(err)
	}
	data := bytes.Repeat([]byte("x"), 1<<10)
	for i := range sessions {
		s.Apply(&store.Command{
			Op: store.OpSessionCommit, Now: now, Space: store.Space{Tenant: "default"},
			Key: fmt.Appendf(nil, "%032x", i*7919), Value: data, TTL: 86_400_000 + int64(i*7919%86_400_000),
		})
		if i%100 == 0 {
			if err := j.Commit(); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(sessions << 10)
	before := processorTime(b)
	for b.Loop() {
		j := New(cfg, store.New(store.Limits{}))
		if err := j.Open(); err != nil {
			b.Fatal(err)
		}
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(processorTime(b)-before)/1e6/float64(b.N), "cpu-ms/op")
}

// processorTime returns the nanoseconds that this process has run.
func processorTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
