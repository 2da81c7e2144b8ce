package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// maxRoster bounds the members, and those who are gone, of a roster that is read.
const maxRoster = 4096

// roster is the member set as peers tell it to each other and as it is kept: who is in it and who is gone from it.
type roster struct {
	Members []rosterMember `json:"members"`
	Gone    []rosterGone   `json:"gone,omitempty"`
}

type rosterMember struct {
	ID       string    `json:"id"`
	Boot     string    `json:"boot"`
	Name     string    `json:"name"`
	Addr     string    `json:"addr"`
	Gossip   string    `json:"gossip"`
	LastSeen time.Time `json:"last_seen"`
}

type rosterGone struct {
	ID   string    `json:"id"`
	Boot string    `json:"boot"`
	Left bool      `json:"left"`
	At   time.Time `json:"at"`
}

// roster returns the set without this host.
func (s *set) roster(now time.Time) roster {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := roster{Members: make([]rosterMember, 0, len(s.members))}
	for _, e := range s.members {
		if !e.joined {
			continue
		}
		seen := e.Seen
		if e.Alive {
			seen = now
		}
		r.Members = append(r.Members, rosterMember{e.ID, e.Boot, e.Name, e.Addr, e.gossip, seen.UTC().Truncate(time.Second)})
	}
	for k, g := range s.gone {
		r.Gone = append(r.Gone, rosterGone{k.id, k.boot, g.left, g.at.UTC().Truncate(time.Second)})
	}
	r.sort()
	return r
}

// sort makes the same set the same bytes.
func (r *roster) sort() {
	slices.SortFunc(r.Members, func(a, b rosterMember) int { return compare(a.ID, b.ID, a.Boot, b.Boot) })
	slices.SortFunc(r.Gone, func(a, b rosterGone) int { return compare(a.ID, b.ID, a.Boot, b.Boot) })
}

func compare(pairs ...string) int {
	for i := 0; i < len(pairs); i += 2 {
		switch {
		case pairs[i] < pairs[i+1]:
			return -1
		case pairs[i] > pairs[i+1]:
			return 1
		}
	}
	return 0
}

// merge takes in what a peer, or the data directory, knows of the set: members that this host has not heard of, as not
// alive until gossip says otherwise, and those who are gone. It reports whether something changed.
func (s *set) merge(r roster, now time.Time) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range r.Gone {
		changed = s.mergeGone(g, now) || changed
	}
	unheard := s.unheard(r)
	for _, m := range r.Members {
		if !unheard[m.ID] {
			changed = s.mergeMember(m, now) || changed
		}
	}
	return s.dropMoved(now) || changed
}

// unheard returns the ids of which this host knows an end that a roster's teller has not heard of. Boot ids have no order, so
// the teller's member may be a run from before that end. Who has heard of the end and has the member all the same knows that it
// came back. The caller holds mu.
func (s *set) unheard(r roster) map[string]bool {
	heard := make(map[run]bool, len(r.Gone))
	for _, g := range r.Gone {
		heard[run{g.ID, g.Boot}] = true
	}
	ids := make(map[string]bool)
	for k := range s.gone {
		if !heard[k] {
			ids[k.id] = true
		}
	}
	return ids
}

// mergeMember takes in that a host is a member. The caller holds mu.
func (s *set) mergeMember(m rosterMember, now time.Time) bool {
	e := s.members[m.ID]
	if _, isGone := s.gone[run{m.ID, m.Boot}]; isGone || m.ID == s.self.ID || (e != nil && e.joined) {
		return false
	}
	if e == nil {
		e = &entry{Member: Member{ID: m.ID, Boot: m.Boot, Name: m.Name, Addr: m.Addr, Seen: m.LastSeen}, gossip: m.Gossip, watched: now}
		s.members[m.ID] = e
	}
	e.joined = true
	return true
}

// mergeGone takes in that a run is gone, and with it all runs of that id before it. A member of another boot id came before it if
// the end is news, unless the member is known to live: then it came back, and the news is late. The caller holds mu.
func (s *set) mergeGone(g rosterGone, now time.Time) bool {
	k := run{g.ID, g.Boot}
	e := s.members[g.ID]
	current := e != nil && e.Boot == g.Boot
	if g.ID == s.self.ID || (current && e.Alive && !g.Left) {
		return false // it lives
	}
	known, heard := s.gone[k]
	if !heard || (g.Left && !known.left) {
		s.note(k, gone{g.Left, now})
	}
	over := current || (e != nil && !heard && !e.Alive && !e.greeted)
	if over {
		delete(s.members, g.ID)
	}
	return over
}

// encode returns the roster as JSON.
func (r roster) encode() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic("cluster: encode a roster: " + err.Error()) // strings and times always can be
	}
	return b
}

// check refuses what no host of ours writes.
func (r roster) check() error {
	if len(r.Members) > maxRoster || len(r.Gone) > maxRoster {
		return fmt.Errorf("more than %d members", maxRoster)
	}
	for _, m := range r.Members {
		if err := checkMember(m.ID, m.Boot, m.Name, m.Addr, m.Gossip); err != nil {
			return err
		}
	}
	for _, g := range r.Gone {
		if !validID(g.ID) || !validID(g.Boot) {
			return fmt.Errorf("%q and %q are no node id and boot id", g.ID, g.Boot)
		}
	}
	return nil
}

func checkMember(id, boot, name string, addrs ...string) error {
	if !validID(id) || !validID(boot) {
		return fmt.Errorf("%q and %q are no node id and boot id", id, boot)
	}
	if !ValidName(name) {
		return fmt.Errorf("%q is no name of a node", name)
	}
	for _, a := range addrs {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
			return fmt.Errorf("%q is no host:port", a)
		}
	}
	return nil
}

// decodeRoster reads a roster that a peer sent.
func decodeRoster(b []byte) (r roster, err error) {
	if err := json.Unmarshal(b, &r); err != nil {
		return r, errors.New("the member set cannot be read")
	}
	return r, r.check()
}
