package cluster

import "errors"

var (
	// ErrNotSent is returned by Call when the question was not served and never will be: the peer is not connected, its queue is full, the
	// context ended before it was written, or the peer refused it.
	ErrNotSent = errors.New("nothing was sent to the peer")

	// ErrNoAnswer is returned by Call when the question may have been served: the connection was lost or the context ended
	// after it was written.
	ErrNoAnswer = errors.New("the peer did not answer")

	// ErrFailed is returned by Call, together with ErrNoAnswer, when the peer's Handler returned an error.
	ErrFailed = errors.New("the peer failed")

	// ErrTooLarge is returned by Call, together with ErrNotSent, for a question that is larger than a frame may be.
	ErrTooLarge = errors.New("larger than a frame may be")

	// ErrUnknown is returned by Forget for a host that is not in the member set.
	ErrUnknown = errors.New("not in the member set")

	// ErrAlive is returned by Forget for a host that is alive, this one included.
	ErrAlive = errors.New("the member is alive")

	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the cluster is closed")
)
