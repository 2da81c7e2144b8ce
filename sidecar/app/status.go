package app

import (
	"context"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/config"
	"github.com/coatcheck/coatcheck/sidecar/store"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// statusTimeout is how long the pool may take to say how it is.
const statusTimeout = time.Second

// status tells a tenant what it has. The php-fpm pool, when there is one, belongs to the default one.
func (a *App) status(ctx context.Context, name string) (wire.Pairs, error) {
	t := a.tenants.Of(name)
	counts, err := a.count(ctx, name, int(t.Connections.Used()), int(t.Waiters.Used()))
	if err != nil {
		return nil, err
	}
	status := append(a.identity(), counts...)
	if name == config.DefaultTenant {
		status = append(append(status, a.poolIfAny(ctx)...), a.clusterIfAny()...)
	}
	return status, nil
}

// statusOfAll tells operators how the daemon is, and what each tenant has when there are several.
func (a *App) statusOfAll(ctx context.Context) (wire.Pairs, error) {
	counts, err := a.count(ctx, "", a.connections(), a.locker.Waiting())
	if err != nil {
		return nil, err
	}
	status := append(a.identity(), counts...)
	status = append(append(status, a.poolIfAny(ctx)...), a.clusterIfAny()...)
	all := a.tenants.All()
	if len(all) < 2 {
		return status, nil
	}
	rows := make([]wire.Pairs, 0, len(all))
	for _, t := range all {
		counts, err := a.count(ctx, t.Name, int(t.Connections.Used()), int(t.Waiters.Used()))
		if err != nil {
			return nil, err
		}
		rows = append(rows, append(wire.Pairs{{Key: "tenant", Value: t.Name}}, counts...))
	}
	return append(status, wire.Pair{Key: "tenants", Value: rows}), nil
}

func (a *App) identity() wire.Pairs {
	identity := wire.Pairs{
		{Key: "version", Value: a.version},
		{Key: "uptime_ms", Value: time.Since(a.started).Milliseconds()},
	}
	if a.hosts != nil {
		identity = append(identity, wire.Pair{Key: "counted", Value: "on this host, copies included"})
	}
	return identity
}

func (a *App) clusterIfAny() wire.Pairs {
	if a.hosts == nil {
		return nil
	}
	return wire.Pairs{{Key: "cluster", Value: a.hosts.summary()}}
}

// count tells what a tenant has on this host, copies included, or all with the empty name.
func (a *App) count(ctx context.Context, tenant string, connections, waiters int) (wire.Pairs, error) {
	r, err := a.local.Do(ctx, &store.Command{Op: store.OpStats, Space: store.Space{Tenant: tenant}})
	return wire.Pairs{
		{Key: "connections", Value: connections},
		{Key: "sessions", Value: r.Stats.Sessions},
		{Key: "locks", Value: r.Stats.Locks},
		{Key: "waiters", Value: waiters},
		{Key: "values", Value: r.Stats.Values},
		{Key: "memory", Value: r.Stats.Bytes},
		{Key: "memory_limit", Value: r.Stats.Limit},
		{Key: "evicted", Value: r.Stats.Evicted},
	}, err
}

func (a *App) poolIfAny(ctx context.Context) wire.Pairs {
	if a.pool == nil {
		return nil
	}
	return wire.Pairs{{Key: "pool", Value: a.poolStatus(ctx)}}
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
