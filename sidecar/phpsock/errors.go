package phpsock

import (
	"errors"
	"fmt"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/roster"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/tenant"
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
	case errors.Is(err, ErrStarting), errors.Is(err, arbiter.ErrCannotKeep), errors.Is(err, arbiter.ErrNotDecided):
		return &wire.Error{Code: wire.Unavailable, Message: err.Error()}
	case errors.Is(err, arbiter.ErrSeveralOwners):
		return &wire.Error{Code: wire.Refused, Message: err.Error(), Details: wire.Pairs{{Key: "reason", Value: severalOwners}}}
	case errors.Is(err, arbiter.ErrNotKept):
		return &wire.Error{Code: wire.Unreachable, Message: err.Error(), Details: wire.Pairs{{Key: "reason", Value: notKept}}}
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
	invalidID     = "invalid_id"     // no session can have this id
	ambiguous     = "ambiguous"      // more than one session is meant
	severalOwners = "several_owners" // the keys of one step have different owners
	notKept       = "not_kept"       // the change was made but not written to the journal
	noCluster     = "no_cluster"     // this daemon is alone
	notOperator   = "not_operator"   // only root and the daemon's user may
)

// refusal is the error of a refused command.
func refusal(r store.Result) *wire.Error {
	e := &wire.Error{
		Code: wire.Refused, Message: refusals[r.Reason],
		Details: wire.Pairs{{Key: "reason", Value: r.Reason.String()}},
	}
	if r.Reason == store.Full {
		e.Message = fmt.Sprintf("%s: %d bytes are needed, %d of %d are in use (%s)",
			e.Message, r.N, r.Stats.Bytes, r.Stats.Limit, limitOf(r.Stats))
		e.Details = append(e.Details, wire.Pairs{
			{Key: "needed", Value: r.N}, {Key: "used", Value: r.Stats.Bytes}, {Key: "limit", Value: r.Stats.Limit},
		}...)
	}
	return e
}

// limitOf names the setting behind a limit of memory.
func limitOf(s store.Stats) string {
	if s.Own {
		return "the tenant's memory_limit, or memory.tenant_limit"
	}
	return "memory.limit"
}

// tooFast is the error of a request above the tenant's rate.
func (s *Server) tooFast(err error) error {
	var e *tenant.TooManyRequests
	if !errors.As(err, &e) {
		return err
	}
	if unlogged, now := s.cfg.Tenant.Logs(tenant.Rate); now {
		s.cfg.Log.Warn("request refused: the tenant asks too often", "socket", s.cfg.Path, "tenant", s.cfg.Tenant.Name,
			"limit", e.Limit, "unlogged", unlogged)
	}
	return &wire.Error{
		Code: wire.Refused, Message: e.Error(),
		Details: wire.Pairs{
			{Key: "reason", Value: tenant.Rate.String()}, {Key: "limit", Value: e.Limit},
			{Key: "retry_after_ms", Value: e.Milliseconds()}, {Key: "setting", Value: e.Setting},
		},
	}
}

// waitersError is the error of a kv.wait that would be one too many.
func (s *Server) waitersError() *wire.Error {
	return &wire.Error{
		Code: wire.Refused, Message: s.waitersMessage(),
		Details: wire.Pairs{
			{Key: "reason", Value: tenant.Waiters.String()}, {Key: "limit", Value: s.cfg.Tenant.Waiters.Limit()},
			{Key: "setting", Value: s.cfg.Tenant.Setting("waiters")},
		},
	}
}

func (s *Server) waitersMessage() string {
	t := s.cfg.Tenant
	return fmt.Sprintf("%d requests of tenant %s wait already, which is the limit (%s)", t.Waiters.Limit(), t.Name, t.Setting("waiters"))
}

// busy is the error of a lock that was not granted.
func (s *Server) busy(o outcome) *wire.Error {
	e := &wire.Error{Code: wire.Busy, Message: "another holds the lock"}
	if o.Holder == nil { // it is between two of them
		e.Message = "the lock is about to be granted to the first of those who wait for it"
	}
	reason := "wait_over"
	switch {
	case o.full:
		reason = "queue_full"
		e.Message += fmt.Sprintf(", and %d wait for it, which is the limit (lock.max_waiters)", o.waiters)
	case o.over:
		reason = tenant.Waiters.String()
		e.Message += ", and " + s.waitersMessage()
	case o.waited > 0:
		e.Message += fmt.Sprintf(", after %v of waiting", o.waited.Round(time.Millisecond))
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
