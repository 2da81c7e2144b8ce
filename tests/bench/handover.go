package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"
)

const (
	rivals = 4                    // processes that want one session
	hold   = 2 * time.Millisecond // how long each of them keeps it, asleep
)

// handover measures the time from a holder's release to the grant of the next that waits.
func handover(ctx context.Context, m *machine) (*table, error) {
	const title = "hand-over"
	all, err := interleave(ctx, m, title, locking(m.contenders), func(ctx context.Context, c contender, each time.Duration) (sample, error) {
		return contend(ctx, m, c, each)
	})
	if err != nil {
		return nil, err
	}
	return newTable(all, table{
		Title: title,
		What: "4 PHP processes want one session, each keeps it for 2 ms: from just before the holder's session_write_close() until " +
			"session_start() returns in a process that was waiting then",
		Command:  "4 times php tests/bench/handover.php " + seconds(m.each) + " ID 2000",
		Figure:   "median, us",
		Baseline: redisLocked,
		Lost:     "updates lost",
		aim: func(t *table) aim {
			ours := t.row(coatcheck)
			return aim{"a hand-over within 1 ms at the median (us)", ours.P50, ours.P50 <= 1000}
		},
	}), nil
}

// contend lets the rivals loose on one session.
func contend(ctx context.Context, m *machine, c contender, each time.Duration) (sample, error) {
	type result struct {
		Handovers []time.Duration `json:"handovers_ns"`
		Added     int             `json:"added"`
		Failed    int             `json:"failed"`
		N         int             `json:"n"`
	}
	id := freshPrefix()
	results := make([]result, rivals)
	errs := make([]error, rivals)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			microseconds := strconv.FormatInt(hold.Microseconds(), 10)
			errs[i] = m.script(ctx, c, &results[i], "handover.php", seconds(each), id, microseconds)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return sample{}, err
	}
	var s sample
	var n int // the last to end saw all that was added
	for _, r := range results {
		s.times = append(s.times, r.Handovers...)
		s.done += r.Added
		s.failed += r.Failed
		n = max(n, r.N)
	}
	s.lost = s.done - n
	s.figure = micro(median(s.times))
	return s, nil
}
