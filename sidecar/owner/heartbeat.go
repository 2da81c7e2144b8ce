package owner

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"
)

// readiness says whether a host can be a member of a view.
type readiness byte

const (
	notReady readiness = iota // it is loading or leaving
	cold                      // it can get copies
	warm                      // it has its copies
)

// state is what a host tells of itself: the answer to a heartbeat and to a proposal.
type state struct {
	boot        string
	view        *view
	majority    bool // it hears one
	ready       readiness
	coordinator string // the smallest host that it hears and that hears a majority; empty: none
	highest     uint64 // epoch that it has heard of
}

func (t *state) append(b []byte) []byte {
	b = appendString(b, t.boot)
	b = appendBool(t.view.append(b, t.view.id.Epoch), t.majority)
	b = appendString(append(b, byte(t.ready)), t.coordinator)
	return appendUint(b, t.highest)
}

func readState(b []byte, known *view) (state, error) {
	r := &reader{b: b}
	t := state{boot: r.string(), view: readView(r, known), majority: r.bool(), ready: readiness(r.byte()), coordinator: r.string(), highest: r.uint()}
	return t, r.err
}

// peer is what is known of another host.
type peer struct {
	state
	sent    int64 // when the last answered question was sent, ms; 0: none was
	offset  int64 // of its clock, ms
	asking  int   // questions without an answer
	pushing bool  // the view is on its way to it
}

// How many questions there are to a host that does not answer, at most: as many as can be of use, and before one more is asked out of turn.
const (
	maxAsking   = int(heardFor/beat) + 1
	maxDoubting = 2
)

// heard says whether an answer of the peer counts.
func (p *peer) heard(now int64) bool { return p.sent > 0 && now-p.sent < heardFor.Milliseconds() }

// beats asks all hosts and judges what they said, until the Seat stops.
func (s *Seat) beats() {
	t := time.NewTicker(beat)
	defer t.Stop()
	most := maxAsking
	for {
		s.askAll(most)
		most = maxAsking
		select {
		case <-s.life.Done():
			return
		case <-s.kick:
		case <-s.doubt:
			most = maxDoubting
		case <-t.C:
			s.judge()
		}
	}
}

// askAll sends a heartbeat to each host of the member set that has fewer than most to answer.
func (s *Seat) askAll(most int) {
	members := s.members()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range members {
		p := s.peers[m.ID]
		if p == nil {
			p = &peer{state: state{view: noView}}
			s.peers[m.ID] = p
		}
		if p.asking < most {
			p.asking++
			s.running.Go(func() { s.heartbeat(m.ID, p) })
		}
	}
	for id := range s.peers {
		if !slices.ContainsFunc(members, func(m Member) bool { return m.ID == id }) {
			delete(s.peers, id)
		}
	}
	s.renewPermission()
}

// heartbeat asks one host.
func (s *Seat) heartbeat(id string, p *peer) {
	ctx, cancel := context.WithTimeout(s.life, heardFor)
	defer cancel()
	s.question(ctx, id, p, kindHeartbeat, nil)
	s.mu.Lock()
	p.asking--
	s.mu.Unlock()
}

// question asks a host for its state and notes the answer.
func (s *Seat) question(ctx context.Context, id string, p *peer, kind byte, body []byte) {
	sent := s.cfg.Clock()
	b, clock, err := s.ask(ctx, id, false, kind, body)
	if err != nil {
		return
	}
	back := s.cfg.Clock()
	t, err := readState(b, s.view())
	if err != nil {
		s.says.warn(id, "a peer's answer cannot be read; do all hosts run the same version?", "peer", id, "error", err)
		return
	}
	s.note(p, t, sent, surplus(clock-(sent+back)/2, (back-sent)/2))
	if s.wants(t.view) {
		s.accept(t.view)
	}
}

// surplus returns how far an offset is beyond what the time of the way explains.
func surplus(offset, way int64) int64 {
	if offset < 0 {
		return min(0, offset+way)
	}
	return max(0, offset-way)
}

// note takes what a host told in answer to a question that was sent at a time.
func (s *Seat) note(p *peer, t state, sent, offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent < p.sent {
		return // a later question was answered already
	}
	p.state, p.sent, p.offset = t, sent, offset
	s.renewPermission()
}

// wants says whether a view that a peer has accepted should be accepted here too: it is a later one, and the own one is of no
// use. A host that did not get the proposal learns in this way who the owners are.
func (s *Seat) wants(v *view) bool {
	p := s.permit.Load()
	return v.id.Epoch > s.view().id.Epoch && s.cfg.Clock() >= p.until
}

// state returns what this host tells of itself.
func (s *Seat) state() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock()
	return state{
		boot: s.self.Boot, view: s.view(), majority: s.hearsMajority(now), ready: s.readiness(now),
		coordinator: s.coordinator(now), highest: s.highest(),
	}
}

func (s *Seat) serveHeartbeat(context.Context, string, []byte) ([]byte, error) {
	t := s.state()
	return t.append(nil), nil
}

// hearsMajority says whether enough hosts are heard. mu is held, as in what follows.
func (s *Seat) hearsMajority(now int64) bool {
	n := 1
	for _, p := range s.peers {
		if p.heard(now) {
			n++
		}
	}
	_, enough := s.majority()
	return n >= enough
}

// readiness says whether this host can be a member.
func (s *Seat) readiness(now int64) readiness {
	v := s.view()
	me, member := v.member(s.self.ID)
	switch {
	case s.leaving || s.tooYoung(now):
		return notReady
	case !member || me.Boot != s.self.Boot:
		return cold
	case me.Cold && !s.hasCopies(v):
		return cold
	}
	return warm
}

// tooYoung says whether the host may have voted in a life of which it remembers nothing, less than a grace ago.
func (s *Seat) tooYoung(now int64) bool {
	return s.cfg.Disk == nil && now-s.started < grace.Milliseconds()
}

// hasCopies says whether all copies that the host should have as the runner-up are whole.
func (s *Seat) hasCopies(v *view) bool {
	for shard := range s.claims {
		if v.runnerUp(shard) == s.self.ID && s.claims[shard].epoch != v.id.Epoch {
			return false
		}
	}
	return true
}

// coordinator returns the smallest host that is heard and itself hears a majority.
func (s *Seat) coordinator(now int64) string {
	smallest := ""
	if s.hearsMajority(now) {
		smallest = s.self.ID
	}
	for id, p := range s.peers {
		if p.heard(now) && p.majority && (smallest == "" || id < smallest) {
			smallest = id
		}
	}
	return smallest
}

// coordinates says whether this host is to propose views. Who hears of a smaller coordinator by another leaves it to that one: else two
// that do not hear each other would take turns.
func (s *Seat) coordinates(now int64) bool {
	if s.coordinator(now) != s.self.ID {
		return false
	}
	for _, p := range s.peers {
		if p.heard(now) && p.coordinator != "" && p.coordinator < s.self.ID {
			return false
		}
	}
	return true
}

// highest returns the highest epoch that was heard of.
func (s *Seat) highest() uint64 {
	epoch := s.view().id.Epoch
	for _, p := range s.peers {
		epoch = max(epoch, p.highest, p.view.id.Epoch)
	}
	return epoch
}

// renewPermission sets until when this host may decide: a majority, itself included, must have answered within heardFor with
// its very view. mu is held.
func (s *Seat) renewPermission() {
	v, now := s.view(), s.cfg.Clock()
	next := &permission{view: v}
	if v.has(s.self.ID, s.self.Boot) {
		sent := []int64{now}
		for _, p := range s.peers {
			if p.sent > 0 && p.view.id == v.id {
				sent = append(sent, p.sent)
			}
		}
		slices.SortFunc(sent, func(a, b int64) int { return cmp.Compare(b, a) })
		until := func(n int) int64 {
			if n > len(sent) {
				return 0
			}
			return sent[n-1] + heardFor.Milliseconds()
		}
		real, enough := s.majority()
		next.until, next.alone = until(enough), until(real) <= now
		if next.asked = next.until - heardFor.Milliseconds(); enough == 1 {
			next.asked = math.MaxInt64
		}
	}
	before := s.permit.Swap(next)
	permitted := next.until > now
	if permitted && s.taking != v.id {
		s.taking = v.id
		s.takeOverSoon(v, now)
	}
	if permitted != (before.view == v && before.until > now) {
		s.broadcast()
	}
	s.m.permitted.Set(float64(map[bool]int{true: 1}[permitted]))
}
