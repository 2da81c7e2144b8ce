package owner

import (
	"context"
	"time"
)

// MemberStatus is what a host knows of a member of the member set, for operators.
type MemberStatus struct {
	ID, Name, Addr string
	Alive          bool // by gossip
	Ready          bool // for a view; false too while it is not heard
	InView         bool
	Cold           bool          // it is in the view and has yet to get its copies
	Epoch          uint64        // of the view that it has accepted, as last heard
	ClockOffset    time.Duration // of its clock from this host's, beyond what the way explains
	Heard          time.Duration // since the question was sent that it answered last; negative: never
	Shards         int           // that it owns by this host's view
}

// Status is what a host knows of the cluster.
type Status struct {
	Epoch     uint64
	Permitted bool // this host may decide
	Serving   int  // shards
	Members   []MemberStatus
}

// Status returns what this host knows.
func (s *Seat) Status() Status {
	members := s.cfg.Peers.Members()
	s.mu.Lock()
	defer s.mu.Unlock()
	v, p, now := s.view(), s.permit.Load(), s.cfg.Clock()
	t := Status{Epoch: v.id.Epoch, Permitted: now < p.until}
	for shard := range s.served {
		if v.id.Epoch > 0 && s.served[shard].Load() == v.id.Epoch {
			t.Serving++
		}
	}
	for _, m := range members {
		in, found := v.member(m.ID)
		x := MemberStatus{
			ID: m.ID, Name: m.Name, Addr: m.Addr, Alive: m.Alive,
			InView: found, Cold: in.Cold, Shards: v.shardsOf(m.ID),
		}
		if m.ID == s.self.ID {
			x.Ready, x.Epoch = s.readiness(now) != notReady, v.id.Epoch
		} else {
			s.peers[m.ID].describe(&x, now)
		}
		t.Members = append(t.Members, x)
	}
	return t
}

// describe adds what is known of a peer, which may be nil.
func (p *peer) describe(x *MemberStatus, now int64) {
	x.Heard = -1
	if p == nil || p.sent == 0 {
		return
	}
	x.Ready = p.heard(now) && p.ready != notReady
	x.Epoch = p.view.id.Epoch
	x.ClockOffset = time.Duration(p.offset) * time.Millisecond
	x.Heard = time.Duration(now-p.sent) * time.Millisecond
}

// Ready returns nil when this host has its place: it is a member of a view by which it may decide, or it hears a majority of the hosts
// and knows by their view whom to ask. Else it says what is missing.
func (s *Seat) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, now := s.view(), s.cfg.Clock()
	placed := s.hearsMajority(now)
	if v.has(s.self.ID, s.self.Boot) {
		placed = now < s.permit.Load().until
	}
	switch {
	case len(v.members) == 0:
		return errNoView
	case !placed:
		return &refusal{notPermitted, v.id}
	}
	return nil
}

// WaitReady returns when the host is Ready, or with the reason why it is not when ctx ends.
func (s *Seat) WaitReady(ctx context.Context) error {
	for {
		changed := s.viewChanged()
		err := s.Ready()
		if err == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return err
		}
	}
}
