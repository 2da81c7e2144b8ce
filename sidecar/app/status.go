package app

import (
	"context"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// statusTimeout is how long the pool may take to say how it is.
const statusTimeout = time.Second

// status tells operators how the daemon is, and its php-fpm pool when there is one.
func (a *App) status(ctx context.Context) (wire.Pairs, error) {
	r, err := a.arbiter.Do(ctx, &store.Command{Op: store.OpStats})
	if err != nil {
		return nil, err
	}
	status := wire.Pairs{
		{Key: "version", Value: a.version},
		{Key: "uptime_ms", Value: time.Since(a.started).Milliseconds()},
		{Key: "connections", Value: a.socket.Connections()},
		{Key: "sessions", Value: r.Stats.Sessions},
		{Key: "locks", Value: r.Stats.Locks},
		{Key: "waiters", Value: a.locker.Waiting()},
		{Key: "values", Value: r.Stats.Values},
		{Key: "memory", Value: r.Stats.Bytes},
		{Key: "memory_limit", Value: r.Stats.Limit},
		{Key: "evicted", Value: r.Stats.Evicted},
	}
	if a.pool != nil {
		status = append(status, wire.Pair{Key: "pool", Value: a.poolStatus(ctx)})
	}
	return status, nil
}

// poolStatus tells how the pool is; that it cannot be told is part of the answer.
func (a *App) poolStatus(ctx context.Context) wire.Pairs {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	s, err := a.pool.Status(ctx)
	if err != nil {
		return wire.Pairs{{Key: "error", Value: err.Error()}}
	}
	return wire.Pairs{
		{Key: "name", Value: s.Pool},
		{Key: "busy", Value: s.Busy},
		{Key: "idle", Value: s.Idle + s.Kept},
		{Key: "queue", Value: s.ListenQueue},
	}
}
