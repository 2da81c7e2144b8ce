package owner

import (
	"fmt"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
)

// whyNot says why a host decided nothing.
type whyNot byte

const (
	notMine      whyNot = iota + 1 // another owns the shard in the accepted view, or the sender's view is another
	notServing                     // the shard is being taken over
	notPermitted                   // no majority answered in this view within the last two seconds
)

func (w whyNot) String() string {
	switch w {
	case notMine:
		return "another host owns the key"
	case notServing:
		return "the key's shard is being taken over"
	case notPermitted:
		return "this host hears no majority"
	}
	return "unknown"
}

// refusal is the error of a host that did nothing. It wraps arbiter.ErrNotDecided.
type refusal struct {
	why  whyNot
	view ViewID // the one that the host has accepted
}

func (r *refusal) Error() string { return fmt.Sprintf("%s (view %s)", r.why, r.view) }

func (r *refusal) Unwrap() error { return arbiter.ErrNotDecided }
