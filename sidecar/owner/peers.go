package owner

import (
	"context"
	"errors"
	"time"
)

// Member is a host of the member set.
type Member struct {
	ID, Boot, Name, Addr string
	Alive                bool
	Seen                 time.Time
}

var (
	ErrNotSent  = errors.New("the peer cannot be reached: nothing was sent")
	ErrNoAnswer = errors.New("the peer did not answer")
)

// Peers is the network as a Seat sees it.
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
