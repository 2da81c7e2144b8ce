package e2e

import (
	"slices"
	"testing"
)

func TestTwentyParallelRequestsOnOneSessionAreAllCounted(t *testing.T) {
	t.Parallel()
	h := open(t, plan{workers: 24})
	v := h.visitor()
	for _, a := range v.together(20, 20, "count.php?hold_ms=50") {
		a.mustBeOK(t)
	}
	check(t, v.get("count.php").number("n") == 21, "the counter is not 20: %s", v.stored(t, ""))
	h.awaitNoLocks()
}

func TestTwoHundredRequestsOverEightWorkersAreAllCounted(t *testing.T) {
	t.Parallel()
	h := open(t, plan{workers: 8})
	v := h.visitor()
	var seen []int
	for _, a := range v.together(200, 64, "count.php") {
		seen = append(seen, a.mustBeOK(t).number("n"))
	}
	slices.Sort(seen)
	for i, n := range seen {
		check(t, n == i+1, "the answers are not 1 to 200, each once: %v", seen)
	}
	h.awaitNoLocks()
}
