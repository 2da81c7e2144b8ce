package main

import (
	"context"
	"fmt"
	"time"
)

// cycle measures session_start(), a change of 4 KiB and session_write_close() in one PHP process, uncontended.
func cycle(ctx context.Context, m *machine) (*table, error) {
	const title = "locked cycle"
	all, err := interleave(ctx, m, title, m.contenders, func(ctx context.Context, c contender, each time.Duration) (sample, error) {
		return repeat(ctx, m, c, "cycle.php", seconds(each), freshPrefix())
	})
	if err != nil {
		return nil, err
	}
	return newTable(all, table{
		Title:    title,
		What:     "session_start(), a change of 4 KiB, session_write_close(), again and again in one PHP process; nobody else wants the session",
		Command:  "php tests/bench/cycle.php " + seconds(m.each) + " PREFIX",
		Figure:   "median, us",
		Baseline: redisLocked,
		Lost:     "not seen by the next cycle",
		aim: func(t *table) aim {
			ours := t.row(coatcheck)
			return aim{"a locked cycle in at most half of phpredis' time with its lock (ratio)", ours.Ratio, ours.Ratio <= 0.5}
		},
	}), nil
}

// repeat runs a script that does the same thing again and again and prints how long each took.
func repeat(ctx context.Context, m *machine, c contender, name string, args ...string) (sample, error) {
	var out struct {
		Times []time.Duration `json:"times_ns"`
		Wrong int             `json:"wrong"`
	}
	err := m.script(ctx, c, &out, name, args...)
	return sample{
		figure: micro(median(out.Times)), times: out.Times, done: len(out.Times) - out.Wrong, lost: out.Wrong,
	}, err
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func seconds(d time.Duration) string { return fmt.Sprintf("%g", d.Seconds()) }
