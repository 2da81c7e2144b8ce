// Package roster writes what people are shown of locks and sessions, in lists and in errors: one row each, the same
// over the socket and over HTTP.
//
// # Guarantees
//
// Session ids and tokens are credentials and appear shortened.
package roster

import (
	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// Holder describes who holds a lock, as clients are told. now is the time in milliseconds.
func Holder(h *store.Hold, now int64) wire.Pairs {
	return wire.Pairs{
		{Key: "pid", Value: h.Who.PID},
		{Key: "sapi", Value: h.Who.SAPI},
		{Key: "script", Value: h.Who.Script},
		{Key: "held_ms", Value: max(0, now-h.Since)},
		{Key: "fence", Value: h.Fence},
	}
}

// Lock describes a held lock to operators, with all that is known of its holders.
func Lock(l store.LockInfo, now int64) wire.Pairs {
	kind, name := "lock", l.Name
	if l.Session {
		kind, name = "session", locker.Short(l.Name)
	}
	holders := make([]wire.Pairs, 0, len(l.Holds))
	for i := range l.Holds {
		holders = append(holders, hold(&l.Holds[i], now))
	}
	return wire.Pairs{
		{Key: "kind", Value: kind},
		{Key: "name", Value: name},
		{Key: "tenant", Value: l.Space.Tenant},
		{Key: "bucket", Value: l.Space.Bucket},
		{Key: "shared", Value: l.Shared},
		{Key: "holders", Value: holders},
	}
}

// hold is a holder's row for operators. A lease without an end has no lease_left_ms.
func hold(h *store.Hold, now int64) wire.Pairs {
	row := append(Holder(h, now),
		wire.Pair{Key: "token", Value: locker.Short(h.Token)},
		wire.Pair{Key: "bound", Value: h.Bound})
	if h.Until != 0 {
		row = append(row, wire.Pair{Key: "lease_left_ms", Value: h.Until - now})
	}
	return row
}

// Session describes a session record to operators.
func Session(s store.SessionInfo, now int64) wire.Pairs {
	return wire.Pairs{
		{Key: "id", Value: locker.Short(s.ID)},
		{Key: "tenant", Value: s.Space.Tenant},
		{Key: "prefix", Value: s.Space.Bucket},
		{Key: "size", Value: s.Size},
		{Key: "ttl_ms", Value: s.ExpiresAt - now},
		{Key: "locked", Value: s.Locked},
	}
}
