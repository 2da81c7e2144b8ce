package owner

import (
	"context"

	"github.com/coatcheck/coatcheck/sidecar/cluster"
)

// Member is a host of the member set.
type Member = cluster.Member

// Errors of Peers.Call.
var (
	ErrNotSent  = cluster.ErrNotSent
	ErrNoAnswer = cluster.ErrNoAnswer
)

// Peers is the network as a Seat sees it: a *cluster.Cluster, or a test's.
type Peers interface {
	Self() Member
	// Members returns the member set with this host, sorted by ID.
	Members() []Member
	// OnChange has f called when the member set or a member of it changed.
	OnChange(f func())
	// Call asks a peer. Ordered questions of one peer are served in the order in which they were sent. It returns
	// ErrNotSent if nothing left, and ErrNoAnswer if the question may have been served.
	Call(ctx context.Context, id string, ordered bool, body []byte) ([]byte, error)
}

var _ Peers = (*cluster.Cluster)(nil)
