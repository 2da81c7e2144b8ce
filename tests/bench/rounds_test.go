package main

import (
	"math"
	"testing"
	"time"
)

func TestQuantileInterpolatesBetweenNeighbours(t *testing.T) {
	values := []time.Duration{40, 10, 30, 20}
	for share, want := range map[float64]time.Duration{0: 10, 0.5: 25, 0.9: 37, 1: 40} {
		if got := quantile(values, share); got != want {
			t.Errorf("quantile(%v, %v) = %d, want %d", values, share, got, want)
		}
	}
	if got := median([]float64(nil)); got != 0 {
		t.Errorf("the median of nothing is %v, want 0", got)
	}
}

// A machine that is ten times slower in one round must not move the ratio.
func TestPairedRatioComparesWithinEachRound(t *testing.T) {
	of := func(figures ...float64) *series {
		var s series
		for _, f := range figures {
			s.samples = append(s.samples, sample{figure: f})
		}
		return &s
	}
	if got := pairedRatio(of(50, 500, 5), of(100, 1000, 10)); math.Abs(got-0.5) > 1e-9 {
		t.Errorf("the ratio is %v, want 0.5", got)
	}
	if got := pairedRatio(of(50, 70), of(100, 0)); math.Abs(got-0.5) > 1e-9 {
		t.Errorf("a round in which the baseline did nothing counts: the ratio is %v, want 0.5", got)
	}
}
