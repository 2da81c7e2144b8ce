package phpsock

import (
	"fmt"
	"testing"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/journal"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// TestPromise5WhatWasNotDecidedIsNoUnknownOutcome, and the other way round: each has a code of its own, whoever wraps it.
func TestPromise5WhatWasNotDecidedIsNoUnknownOutcome(t *testing.T) {
	for err, want := range map[error]wire.Code{
		arbiter.ErrNotDecided:      wire.Unavailable,
		journal.ErrNotWritable:     wire.Unavailable,
		arbiter.ErrUnreachable:     wire.Unreachable,
		arbiter.ErrSeveralOwners:   wire.Refused,
		fmt.Errorf("a disk melts"): wire.Internal,
	} {
		if got := asError(fmt.Errorf("owner b: %w", err)); got.Code != want {
			t.Errorf("%v is %s, want %s", err, got.Code, want)
		}
	}
}
