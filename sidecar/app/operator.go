package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coatcheck/coatcheck/sidecar/cluster"
	"github.com/coatcheck/coatcheck/sidecar/owner"
	"github.com/coatcheck/coatcheck/sidecar/phpsock"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// leaveTimeout is how long the others may take to take over what an operator has this host give away.
const leaveTimeout = time.Minute

var _ phpsock.Cluster = (*hosts)(nil)

// operable returns what operators may change of the cluster, nil without one.
func (a *App) operable() phpsock.Cluster {
	if a.hosts == nil {
		return nil
	}
	return a.hosts
}

// members returns what tells of the members, nil without a cluster.
func (a *App) members() func(context.Context) (wire.Pairs, error) {
	if a.hosts == nil {
		return nil
	}
	return a.hosts.Members
}

// Reload reads the cluster's secrets and certificates again, and logs what came of it.
func (a *App) Reload() {
	if a.hosts == nil {
		a.log.Info("nothing was read again: that is for the secrets and certificates of a cluster")
		return
	}
	if _, err := a.hosts.Reload(); err != nil {
		a.log.Error("the secrets and certificates cannot be read again; those that were in use stay", "error", err)
	}
}

// Members is part of phpsock.Cluster.
func (h *hosts) Members(context.Context) (wire.Pairs, error) {
	s := h.seat.Status()
	self := h.cluster.Self().ID
	rows := make([]wire.Pairs, 0, len(s.Members))
	for _, m := range s.Members {
		rows = append(rows, memberRow(m, m.ID == self))
	}
	return wire.Pairs{
		{Key: "cluster", Value: h.id},
		{Key: "node", Value: self},
		{Key: "epoch", Value: s.Epoch},
		{Key: "permitted", Value: s.Permitted},
		{Key: "serving", Value: s.Serving},
		{Key: "leaving", Value: h.away.Load()},
		{Key: "members", Value: rows},
	}, nil
}

func memberRow(m owner.MemberStatus, self bool) wire.Pairs {
	var heard any // nil: never
	if self || m.Heard >= 0 {
		heard = m.Heard.Milliseconds()
	}
	return wire.Pairs{
		{Key: "id", Value: m.ID},
		{Key: "name", Value: m.Name},
		{Key: "address", Value: m.Addr},
		{Key: "alive", Value: m.Alive},
		{Key: "ready", Value: m.Ready},
		{Key: "in_view", Value: m.InView},
		{Key: "cold", Value: m.Cold},
		{Key: "epoch", Value: m.Epoch},
		{Key: "clock_offset_ms", Value: m.ClockOffset.Milliseconds()},
		{Key: "heard_ms", Value: heard},
		{Key: "shards", Value: m.Shards},
	}
}

// summary is what server.status tells of the cluster.
func (h *hosts) summary() wire.Pairs {
	s, self := h.seat.Status(), h.cluster.Self()
	alive, ready := 0, 0
	for _, m := range s.Members {
		if m.Alive {
			alive++
		}
		if m.Ready {
			ready++
		}
	}
	return wire.Pairs{
		{Key: "id", Value: h.id},
		{Key: "node", Value: self.ID},
		{Key: "name", Value: self.Name},
		{Key: "epoch", Value: s.Epoch},
		{Key: "permitted", Value: s.Permitted},
		{Key: "serving", Value: s.Serving},
		{Key: "members", Value: len(s.Members)},
		{Key: "alive", Value: alive},
		{Key: "ready", Value: ready},
	}
}

// gauges are those of the member set, and of what this host owns by its view.
func (h *hosts) gauges() []prometheus.Collector {
	count := func(counts func(m owner.MemberStatus) int) func() int {
		return func() (n int) {
			for _, m := range h.seat.Status().Members {
				n += counts(m)
			}
			return n
		}
	}
	self := h.cluster.Self().ID
	return []prometheus.Collector{
		gauge("coatcheck_cluster_members", "Hosts of the member set, of which a majority is counted.", count(func(owner.MemberStatus) int { return 1 })),
		gauge("coatcheck_cluster_members_alive", "Members that gossip holds for alive, this host included.", count(func(m owner.MemberStatus) int {
			if m.Alive {
				return 1
			}
			return 0
		})),
		gauge("coatcheck_owner_shards_owned", "Shards of the 256 that this host owns by its view.", count(func(m owner.MemberStatus) int {
			if m.ID == self {
				return m.Shards
			}
			return 0
		})),
		gauge("coatcheck_owner_shards_served", "Shards of the 256 that this host decides on now, as their owner.", func() int { return h.seat.Status().Serving }),
	}
}

// refused is the error of an operator's wish that is not fulfilled. Nothing was changed.
func refused(reason, message string) error {
	return &wire.Error{Code: wire.Refused, Message: message, Details: wire.Pairs{{Key: "reason", Value: reason}}}
}

// move has one join or leave at a time.
func (h *hosts) move(do func() error) error {
	select {
	case h.moving <- struct{}{}:
		defer func() { <-h.moving }()
		return do()
	default:
		return refused("busy", "another join or leave is under way")
	}
}

// Join is part of phpsock.Cluster.
func (h *hosts) Join(ctx context.Context, address string) error {
	return h.move(func() error {
		if address != "" {
			if err := h.cluster.Join(ctx, address); err != nil {
				return &wire.Error{Code: wire.Unavailable, Message: err.Error()}
			}
		}
		h.comeBack()
		return nil
	})
}

// Leave is part of phpsock.Cluster. The host stays in the member set while it runs: it goes on asking the owners for its clients, and
// answers those who count a majority. When it stops it takes itself out of the set.
func (h *hosts) Leave(ctx context.Context) error {
	return h.move(func() error {
		if !h.hasHeirs() {
			return refused("no_other", "no other host has its place and its copies, so nobody can take over: see coatcheck members")
		}
		h.away.Store(true)
		ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
		defer cancel()
		if err := h.seat.Leave(ctx); err != nil {
			h.comeBack()
			return &wire.Error{Code: wire.Unavailable, Message: "this host keeps its place: " + err.Error()}
		}
		return nil
	})
}

// hasHeirs says whether another host could take over.
func (h *hosts) hasHeirs() bool {
	self := h.cluster.Self().ID
	for _, m := range h.seat.Status().Members {
		if m.ID != self && m.Ready && m.InView && !m.Cold {
			return true
		}
	}
	return false
}

// comeBack takes back a leave, unless the daemon stops.
func (h *hosts) comeBack() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ending {
		h.seat.Return()
		h.away.Store(false)
	}
}

// Forget is part of phpsock.Cluster. On the smaller side of a cut it would make this host a majority of its own.
func (h *hosts) Forget(id string, force bool) error {
	if err := h.seat.Ready(); err != nil && !force {
		return refused("no_majority", fmt.Sprintf("%v: if the others are only cut off, forgetting one could have both sides decide; "+
			"say --force when you know that the host is stopped for good", err))
	}
	err := h.cluster.Forget(id)
	switch {
	case errors.Is(err, cluster.ErrUnknown):
		return refused("unknown_member", err.Error())
	case errors.Is(err, cluster.ErrAlive):
		return refused("alive", err.Error()+": stop it first")
	}
	return err
}

// Reload is part of phpsock.Cluster.
func (h *hosts) Reload() ([]string, error) {
	if err := h.cluster.Reload(); err != nil {
		return nil, refused("settings", err.Error())
	}
	return h.cluster.Secrets(), nil
}
