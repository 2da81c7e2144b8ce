package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"time"
)

// sample is what one contender did in one round.
type sample struct {
	figure float64         // what is compared
	times  []time.Duration // of each cycle, hand-over or request
	done   int             // how many went well
	failed int             // how many said that they did not
	lost   int             // changes of those that went well and are not there
}

// series is one contender's rounds.
type series struct {
	contender contender
	samples   []sample
}

// figures returns the figure of each round.
func (s *series) figures() []float64 {
	figures := make([]float64, 0, len(s.samples))
	for _, sample := range s.samples {
		figures = append(figures, sample.figure)
	}
	return figures
}

// interleave lets the contenders take turns. A short turn of each comes first and does not count.
func interleave(
	ctx context.Context, m *machine, title string, among []contender,
	turn func(context.Context, contender, time.Duration) (sample, error),
) ([]series, error) {
	all := make([]series, len(among))
	for round := range m.rounds + 1 {
		fmt.Fprintf(os.Stderr, "\r%s: round %d of %d ", title, round, m.rounds)
		for i, c := range among {
			each := m.each
			if round == 0 {
				each = min(each, 300*time.Millisecond)
			}
			s, err := turn(ctx, c, each)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", title, err)
			}
			all[i].contender = c
			if round > 0 {
				all[i].samples = append(all[i].samples, s)
			}
		}
	}
	fmt.Fprintln(os.Stderr)
	return all, nil
}

// freshPrefix returns the beginning of session ids that nobody has used.
func freshPrefix() string { return rand.Text() + "-" }

// number is what can be sorted and averaged.
type number interface{ ~int64 | ~float64 }

// median returns the middle of some values; 0 if there are none.
func median[N number](values []N) N { return quantile(values, 0.5) }

// quantile returns the value below which a share of the values lies; 0 if there are none.
func quantile[N number](values []N, share float64) N {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := share * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[low]
	}
	return sorted[low] + N(float64(sorted[low+1]-sorted[low])*(at-float64(low)))
}

// pairedRatio returns the median, over the rounds, of one contender's figure by another's in the same round.
// A machine that is slow for a while is so for both, which a ratio of medians would not take into account.
func pairedRatio(a, b *series) float64 {
	var ratios []float64
	for i := range a.samples {
		if b.samples[i].figure > 0 {
			ratios = append(ratios, a.samples[i].figure/b.samples[i].figure)
		}
	}
	return median(ratios)
}
