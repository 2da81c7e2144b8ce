package phpsock

import (
	"errors"
	"fmt"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/journal"
	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/roster"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// asError turns any failure into the error that the client is told.
func asError(err error) *wire.Error {
	var e *wire.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, wire.ErrMalformed):
		return &wire.Error{Code: wire.Protocol, Message: err.Error()}
	case errors.Is(err, locker.ErrShuttingDown), errors.Is(err, locker.ErrClosed):
		return &wire.Error{Code: wire.Unavailable, Message: locker.ErrShuttingDown.Error()}
	case errors.Is(err, ErrStarting), errors.Is(err, journal.ErrNotWritable):
		return &wire.Error{Code: wire.Unavailable, Message: err.Error()}
	case errors.Is(err, arbiter.ErrUnreachable):
		return &wire.Error{Code: wire.Unreachable, Message: err.Error()}
	}
	return &wire.Error{Code: wire.Internal, Message: err.Error()}
}

// misused says that a request is wrong in itself.
func misused(m wire.Method, format string, args ...any) *wire.Error {
	return &wire.Error{Code: wire.Protocol, Message: m.String() + ": " + fmt.Sprintf(format, args...)}
}

// refusals says in words why a command was refused.
var refusals = map[store.Reason]string{
	store.Superseded: "the lock was granted to another request since",
	store.Destroyed:  "the session was destroyed after it was read",
	store.Forgotten:  "the lock ended so long ago that it is no longer known who came after",
	store.NotHolder:  "this token does not hold the lock",
	store.NotInteger: "the value is not a 64-bit integer",
	store.Overflow:   "the result does not fit in 64 bits",
	store.TooLong:    "the value would be too long",
	store.WrongType:  "the key holds a hash",
	store.NotFloat:   "the value is not a number",
	store.NotFinite:  "the result would not be a finite number",
	store.Full:       "memory is full and nothing more can be evicted",
}

// Reasons that the store does not know.
const (
	invalidID = "invalid_id" // no session can have this id
	ambiguous = "ambiguous"  // more than one session is meant
)

// refusal is the error of a refused command.
func refusal(r store.Result) *wire.Error {
	e := &wire.Error{
		Code: wire.Refused, Message: refusals[r.Reason],
		Details: wire.Pairs{{Key: "reason", Value: r.Reason.String()}},
	}
	if r.Reason == store.Full {
		e.Message = fmt.Sprintf("%s: %d bytes are needed, %d of %d are in use (memory.limit)",
			e.Message, r.N, r.Stats.Bytes, r.Stats.Limit)
		e.Details = append(e.Details, wire.Pairs{
			{Key: "needed", Value: r.N}, {Key: "used", Value: r.Stats.Bytes}, {Key: "limit", Value: r.Stats.Limit},
		}...)
	}
	return e
}

// busy is the error of a lock that was not granted.
func busy(o outcome) *wire.Error {
	e := &wire.Error{Code: wire.Busy, Message: "another holds the lock"}
	reason := "wait_over"
	if o.full {
		reason = "queue_full"
		e.Message = fmt.Sprintf("another holds the lock and %d wait for it, which is the limit (lock.max_waiters)", o.waiters)
	}
	e.Details = wire.Pairs{
		{Key: "reason", Value: reason},
		{Key: "waited_ms", Value: o.waited.Milliseconds()},
		{Key: "waiters", Value: o.waiters},
	}
	if o.Holder != nil {
		e.Details = append(e.Details, wire.Pair{Key: "holder", Value: roster.Holder(o.Holder, o.now)})
	}
	return e
}
