// Command bench measures coatcheck beside phpredis with Redis, php-memcached and PHP's own files handler, on this
// machine and in one run, and prints the ratios. `make bench` runs it; docs/performance.md says how to read it.
//
// Every server it needs it starts itself, on Unix sockets in a directory of its own, and stops again. The contenders take
// turns, round after round, so that whatever else the machine does meets all of them alike.
// It fails when something cannot be measured, never because of what was measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// limit is how long a run may take, whatever was asked for.
const limit = 30 * time.Minute

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	var o options
	flag.StringVar(&o.root, "root", ".", "the checkout's `DIR`")
	flag.StringVar(&o.out, "out", "tests/bench/out", "`DIR` that gets the figures as JSON, in SUITE.json")
	flag.DurationVar(&o.each, "each", 2*time.Second, "how long each measurement takes")
	flag.IntVar(&o.rounds, "rounds", 7, "how often each is taken")
	flag.IntVar(&o.sessions, "sessions", 1_000_000, "how many sessions the memory suite stores")
	flag.StringVar(&o.suite, "suite", "sessions", "what to measure: sessions, kv or memory")
	flag.StringVar(&o.only, "only", "", "of the sessions suite only the measurements whose name contains this `TEXT`: cycle, handover, pages, distinct, shared, held")
	flag.Parse()
	if suites[o.suite] == nil {
		return fmt.Errorf("-suite %q: it can be sessions, kv or memory", o.suite)
	}
	if o.each < 100*time.Millisecond || o.rounds < 1 {
		return fmt.Errorf("-each %v -rounds %d: the least is 100ms and 1", o.each, o.rounds)
	}
	if o.root, err = filepath.Abs(o.root); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	m, err := startMachine(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.stop()) }()
	r := newReport(ctx, m)
	r.Tables, err = suites[o.suite](ctx, m)
	if ctx.Err() != nil {
		return fmt.Errorf("given up: %w", context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	r.finish()
	r.print(os.Stdout)
	return r.save(filepath.Join(o.out, o.suite+".json"))
}

// options are what can be chosen.
type options struct {
	root, out, suite, only string
	each                   time.Duration
	rounds                 int
	sessions               int
}

// values is what tests/bench/kv.sh measures.
func values(ctx context.Context, m *machine) ([]*table, error) {
	functions, err := kv(ctx, m)
	if err != nil {
		return nil, err
	}
	endpoint, err := resp(ctx, m)
	return append(functions, endpoint...), err
}

// command is what asks for the same run again.
func (o options) command() string {
	switch o.suite {
	case "memory":
		return fmt.Sprintf("MEMORY_SESSIONS=%d tests/bench/memory.sh", o.sessions)
	case "kv":
		return fmt.Sprintf("BENCH_SECONDS=%s BENCH_ROUNDS=%d tests/bench/kv.sh", seconds(o.each), o.rounds)
	}
	return fmt.Sprintf("BENCH_SECONDS=%s BENCH_ROUNDS=%d make bench", seconds(o.each), o.rounds)
}

// suites is the table of what can be measured.
var suites = map[string]func(context.Context, *machine) ([]*table, error){
	"sessions": sessions, "kv": values, "memory": memory,
}

// sessions is what `make bench` measures.
func sessions(ctx context.Context, m *machine) ([]*table, error) {
	var tables []*table
	for _, measurement := range []struct {
		name string
		take func(context.Context, *machine) (*table, error)
	}{
		{"cycle", cycle},
		{"handover", handover},
		{"pages, distinct", distinctPages},
		{"pages, shared", sharedPages},
		{"pages, held", heldPages},
	} {
		if !strings.Contains(measurement.name, m.only) {
			continue
		}
		t, err := measurement.take(ctx, m)
		if err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	return tables, nil
}
