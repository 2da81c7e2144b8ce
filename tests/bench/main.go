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
	flag.StringVar(&o.out, "out", "tests/bench/out/bench.json", "`FILE` that gets the figures as JSON")
	flag.DurationVar(&o.each, "each", 2*time.Second, "how long each measurement takes")
	flag.IntVar(&o.rounds, "rounds", 7, "how often each is taken")
	flag.Parse()
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
	r, err := measure(ctx, m)
	if err != nil {
		return err
	}
	r.print(os.Stdout)
	return r.save(o.out)
}

// options are what can be chosen.
type options struct {
	root, out string
	each      time.Duration
	rounds    int
}

// measure takes all measurements.
func measure(ctx context.Context, m *machine) (*report, error) {
	r := newReport(ctx, m)
	for _, measurement := range []func(context.Context, *machine) (*table, error){
		cycle, handover, distinctPages, sharedPages, heldPages,
	} {
		t, err := measurement(ctx, m)
		if err != nil {
			return nil, err
		}
		r.Tables = append(r.Tables, t)
	}
	r.finish()
	return r, nil
}
