package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	forgetAfter = 24 * time.Hour
	keepGone    = 7 * 24 * time.Hour // how long those who were cut off can still be told who is gone
	maxGone     = 1024               // a host without a data directory that starts over and over leaves one each time
)

// entry is a host with what the set alone needs to know.
type entry struct {
	Member
	joined  bool      // it is a member; others were only seen by gossip, which proves less than a greeting
	greeted bool      // it said itself who it is, and gossip has not seen its end since
	gossip  string    // host:port of its gossip
	watched time.Time // since when this run has not seen it alive
}

// run is one run of a member.
type run struct{ id, boot string }

// gone is why a member is not in the set any more: no run of its id up to that one is. A leave is the member's own word, and a run that said it never comes
// back. Whoever was forgotten may have been cut off, and is a member again when it is seen alive.
type gone struct {
	left bool
	at   time.Time // when this host heard of it
}

// set is the member set and those who are gone from it. It reads no clock.
type set struct {
	mu      sync.Mutex
	self    entry
	members map[string]*entry // without self, and with hosts that are alive and have not joined yet; guarded by mu
	gone    map[run]gone      // guarded by mu
}

func newSet(self entry) *set {
	return &set{self: self, members: make(map[string]*entry), gone: make(map[run]gone)}
}

// list returns the member set, sorted by id.
func (s *set) list(now time.Time) []Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Member, 0, len(s.members)+1)
	for _, e := range s.members {
		m := e.Member
		if m.Alive {
			m.Seen = now
		}
		if e.joined {
			all = append(all, m)
		}
	}
	self := s.self.Member
	self.Seen = now
	all = append(all, self)
	slices.SortFunc(all, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// saw takes in what gossip says of a host that is alive. It reports whether something changed.
func (s *set) saw(seen entry, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen.ID == s.self.ID || s.gone[run{seen.ID, seen.Boot}].left {
		return false
	}
	old := s.members[seen.ID]
	if old == nil && len(s.members) >= maxRoster {
		return false // who has no more than the secret must not have this host connect to anybody
	}
	seen.Alive, seen.Seen, seen.watched = true, now, now
	seen.joined = old != nil && old.joined
	s.members[seen.ID] = &seen
	moved := s.dropMoved(now)
	return old == nil || moved || old.identity() != seen.identity()
}

// met takes in that a host has proved over a peer connection who it is: that makes it a member. What it says of itself is newer than what
// gossip said.
func (s *set) met(g greeting, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone[run{g.ID, g.Boot}].left {
		return false
	}
	delete(s.gone, run{g.ID, g.Boot}) // it was forgotten, and is back
	e := s.members[g.ID]
	if e == nil {
		e = &entry{Member: Member{ID: g.ID, Name: g.Name, Addr: g.Addr, Seen: now}, gossip: g.Gossip, watched: now}
		s.members[g.ID] = e
	}
	e.greeted = true
	if e.joined && e.Boot == g.Boot {
		return false
	}
	e.joined, e.Boot = true, g.Boot
	return true
}

// identity is what others hear of as a change.
func (e *entry) identity() [6]string {
	return [6]string{e.ID, e.Boot, e.Name, e.Addr, e.gossip, fmt.Sprint(e.Alive)}
}

// lost takes in that gossip holds a member for dead.
func (s *set) lost(id string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.members[id]
	if e == nil || !e.Alive {
		return false
	}
	e.Alive, e.greeted, e.Seen, e.watched = false, false, now, now
	if !e.joined {
		delete(s.members, id)
	}
	s.dropMoved(now)
	return true
}

// dropMoved forgets members whose address is another's now: nobody will ever answer there by their id. A host without a data
// directory leaves one behind at each start. The caller holds mu.
func (s *set) dropMoved(now time.Time) (changed bool) {
	taken := map[string]bool{s.self.gossip: true}
	for _, e := range s.members {
		if e.Alive {
			taken[e.gossip] = true
		}
	}
	for _, e := range s.members {
		if !e.Alive && taken[e.gossip] {
			s.drop(e, false, now)
			changed = true
		}
	}
	return changed
}

// drop takes a member out. The caller holds mu.
func (s *set) drop(e *entry, left bool, now time.Time) {
	delete(s.members, e.ID)
	s.note(run{e.ID, e.Boot}, gone{left, now})
}

// note keeps that a run is gone. The caller holds mu.
func (s *set) note(r run, g gone) {
	s.gone[r] = g
	if len(s.gone) <= maxGone {
		return
	}
	oldest := r
	for k, o := range s.gone {
		if o.at.Before(s.gone[oldest].at) {
			oldest = k
		}
	}
	delete(s.gone, oldest)
}

// forget takes out a member that is not alive.
func (s *set) forget(id string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.members[id]
	switch {
	case id == s.self.ID:
		return fmt.Errorf("forget %s: %w: it is this host", id, ErrAlive)
	case e == nil || !e.joined:
		return fmt.Errorf("forget %s: %w", id, ErrUnknown)
	case e.Alive:
		return fmt.Errorf("forget %s (%s): %w", id, e.Name, ErrAlive)
	}
	s.drop(e, false, now)
	return nil
}

// sweep forgets members that were unseen for too long, while a majority is alive: a host that is cut off must not become
// a majority of its own. Only the time that this host itself has watched counts. It returns who was forgotten.
func (s *set) sweep(now time.Time) (forgotten []Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	alive, all := 1, 1
	for _, e := range s.members {
		if e.Alive {
			e.Seen, e.watched = now, now
		}
		if e.joined {
			all++
			if e.Alive {
				alive++
			}
		}
	}
	if 2*alive > all {
		for _, e := range s.members {
			if now.Sub(e.watched) > forgetAfter {
				s.drop(e, false, now)
				forgotten = append(forgotten, e.Member)
			}
		}
	}
	maps.DeleteFunc(s.gone, func(_ run, g gone) bool { return now.Sub(g.at) > keepGone })
	return forgotten
}

// hasLeft says whether a run has taken itself out of the set.
func (s *set) hasLeft(id, boot string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone[run{id, boot}].left
}

// conflict says why two hosts seem to have one node id; empty: they do not. addr and gossip are addresses of the one that is to be let in.
func (s *set) conflict(id, boot, addr, gossip string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.members[id]
	switch {
	case id == s.self.ID && boot != s.self.Boot:
		return fmt.Sprintf("node id %s is used by two hosts, this one is at %s: was the data directory copied? Delete the file %s on one of them", id, s.self.Addr, nodeFile)
	case e != nil && e.joined && e.Alive && e.Boot != boot && e.Addr != addr && e.gossip != gossip:
		return fmt.Sprintf("node id %s is used by a host at %s, which is alive: was the data directory copied? Delete the file %s on one of them. "+
			"A host that has moved is let in when the others have seen its end", id, e.Addr, nodeFile)
	}
	return ""
}

// addresses returns where to connect to: the peer addresses of all members, and of hosts that are to become members.
func (s *set) addresses() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]string, len(s.members))
	for id, e := range s.members {
		all[id] = e.Addr
	}
	return all
}

// gossips returns where gossip of the members that are not alive was last, and where that of the others is.
func (s *set) gossips() (dormant []string, active map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	active = map[string]bool{s.self.gossip: true}
	for _, e := range s.members {
		if e.Alive {
			active[e.gossip] = true
		} else if e.gossip != "" {
			dormant = append(dormant, e.gossip)
		}
	}
	return dormant, active
}
