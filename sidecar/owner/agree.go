package owner

import (
	"context"
	"slices"
)

// judge looks at what the last heartbeat brought, and proposes a view when it is this host's turn and the accepted one has not been right
// for two beats.
func (s *Seat) judge() {
	s.mu.Lock()
	now := s.cfg.Clock()
	s.forgetPast(now)
	s.renewPermission()
	wanted := s.wanted(now)
	s.m.ready.Set(float64(len(wanted)))
	if !s.hearsMajority(now) {
		s.says.warn("", "no majority of the hosts is heard; what needs one is refused", "hosts", len(s.cfg.Peers.Members()), "expect", s.cfg.Expect)
	}
	var proposal *view
	v := s.view()
	if s.coordinates(now) {
		if slices.Equal(wanted, v.members) && s.highest() == v.id.Epoch && !s.split(v, now) || len(wanted) == 0 {
			s.differs = 0
		} else if s.differs++; s.differs >= 2 {
			s.differs = 0
			proposal = newView(s.highest()+1, wanted)
		}
		if proposal == nil {
			s.push(v, now)
		}
	} else {
		s.differs = 0
	}
	s.mu.Unlock()
	if proposal != nil {
		s.running.Go(func() { s.propose(proposal) })
	}
}

// split says whether a host that is heard has accepted another view of the same epoch. mu is held, as in what follows.
func (s *Seat) split(v *view, now int64) bool {
	for _, p := range s.peers {
		if p.heard(now) && p.view.id.Epoch == v.id.Epoch && p.view.id != v.id {
			return true
		}
	}
	return false
}

// wanted returns the members that a view should have: the hosts that are heard, ready and have good clocks.
func (s *Seat) wanted(now int64) []seated {
	reference := s.referenceClock(now)
	good := func(id string, offset int64) bool {
		if off := offset - reference; off > maxOffset.Milliseconds() || off < -maxOffset.Milliseconds() {
			s.says.warn(id, "a host's clock is off, so it owns nothing; set it right", "host", id, "off_ms", off)
			return false
		}
		return true
	}
	var members []seated
	if ready := s.readiness(now); good(s.self.ID, 0) && ready != notReady {
		members = append(members, seated{s.self.ID, s.self.Boot, ready == cold})
	}
	for id, p := range s.peers {
		if p.heard(now) {
			s.m.offset.WithLabelValues(id).Set(float64(p.offset) / 1000)
		}
		if p.heard(now) && p.ready != notReady && good(id, p.offset) {
			m := seated{id, p.boot, p.ready == cold}
			if in, _ := s.view().member(id); in.Boot == p.boot && p.view.id != s.view().id {
				m.Cold = in.Cold // what it said was before it knew this view
			}
			members = append(members, m)
		}
	}
	if !slices.ContainsFunc(members, func(m seated) bool { return !m.Cold }) {
		for i := range members { // nobody has more than the others
			members[i].Cold = false
		}
	}
	return newView(0, members).members
}

// referenceClock returns the offset of the clock that is in the middle.
func (s *Seat) referenceClock(now int64) int64 {
	offsets := []int64{0}
	for _, p := range s.peers {
		if p.heard(now) {
			offsets = append(offsets, p.offset)
		}
	}
	slices.Sort(offsets)
	return offsets[(len(offsets)-1)/2]
}

// push sends the accepted view to hosts that have an older one.
func (s *Seat) push(v *view, now int64) {
	if v.id.Epoch == 0 {
		return
	}
	for id, p := range s.peers {
		if p.heard(now) && p.view.id.Epoch < v.id.Epoch {
			s.pushTo(v, id, p)
		}
	}
}

func (s *Seat) pushTo(v *view, id string, p *peer) {
	if p.pushing {
		return
	}
	p.pushing = true
	s.running.Go(func() {
		ctx, cancel := context.WithTimeout(s.life, heardFor)
		defer cancel()
		s.question(ctx, id, p, kindProposal, v.append(nil, v.id.Epoch))
		s.mu.Lock()
		p.pushing = false
		s.mu.Unlock()
	})
}

// propose accepts a view and asks all others to do so.
func (s *Seat) propose(v *view) {
	if !s.accept(v) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range s.peers {
		if p.heard(s.cfg.Clock()) {
			p.pushing = false // of an older view
			s.pushTo(v, id, p)
		}
	}
}

func (s *Seat) serveProposal(_ context.Context, _ string, body []byte) ([]byte, error) {
	r := &reader{b: body}
	v := readView(r, s.view())
	if r.err != nil {
		return nil, r.err
	}
	s.accept(v)
	t := s.state()
	return t.append(nil), nil
}

// accept makes v the accepted view if it is a later one. When it returns, nothing is decided by an older view any more, and v is kept.
func (s *Seat) accept(v *view) bool {
	select {
	case s.turn <- struct{}{}:
	case <-s.life.Done():
		return false
	}
	defer func() { <-s.turn }()
	if s.mu.Lock(); v.id.Epoch <= s.view().id.Epoch || s.tooYoung(s.cfg.Clock()) {
		s.mu.Unlock()
		return false
	}
	err := s.save(v)
	s.mu.Unlock()
	if err != nil {
		s.says.warn("", "the view cannot be kept, so it is not accepted", "view", v.id.String(), "error", err)
		return false
	}
	// Whatever is being decided or copied is done with before the answer: who takes over may count on it.
	s.intake.close()
	for i := range s.gates {
		s.gates[i].close()
	}
	s.mu.Lock()
	s.enter(v)
	s.mu.Unlock()
	for i := range s.gates {
		s.gates[i].open()
	}
	s.intake.open()
	s.hurry()
	return true
}

// enter begins a view. mu is held, and all gates are closed.
func (s *Seat) enter(v *view) {
	old, now := s.view(), s.cfg.Clock()
	s.past = append(s.past, pastView{old, now})
	s.forgetPast(now)
	s.term()
	s.term = func() {}
	s.last = 0
	for _, c := range s.claims {
		s.last = max(s.last, c.epoch)
	}
	s.handouts = make(map[string]*handout)
	s.accepted.Store(v)
	s.permit.Store(&permission{view: v})
	s.redirect(old, v)
	s.renewPermission()
	s.broadcast()
	s.m.views.Inc()
	s.m.epoch.Set(float64(v.id.Epoch))
	s.says.log.Info("view accepted", "view", v.id.String(), "members", v.String())
}

// forgetPast drops what no other host can go by any more. mu is held.
func (s *Seat) forgetPast(now int64) {
	recent := func(at int64) bool { return now-at < grace.Milliseconds() }
	s.past = slices.DeleteFunc(s.past, func(p pastView) bool { return !recent(p.until) })
	s.known = s.known || !recent(s.started)
}
