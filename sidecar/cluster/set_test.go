package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// fakeID makes an id that people can read: d for "d", say.
func fakeID(name string) string { return fmt.Sprintf("%016x", name) }

// host makes an entry as gossip tells it.
func host(name, boot string) entry {
	return entry{
		Member: Member{ID: fakeID(name), Boot: fakeID(boot), Name: name, Addr: name + ":1"}, gossip: name + ":2",
	}
}

// greets makes a host's greeting.
func greets(e entry) greeting {
	return greeting{ID: e.ID, Boot: e.Boot, Name: e.Name, Addr: e.Addr, Gossip: e.gossip}
}

func setOf(names ...string) *set {
	s := newSet(host("self", "1"))
	s.self.Alive = true
	for _, n := range names {
		s.saw(host(n, "1"), noon)
		s.met(greets(host(n, "1")), noon)
	}
	return s
}

// names returns the members' names without self, those that are not alive with a minus.
func (s *set) names() string {
	var all []string
	for _, m := range s.list(noon) {
		switch {
		case m.ID == s.self.ID:
		case m.Alive:
			all = append(all, m.Name)
		default:
			all = append(all, "-"+m.Name)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (s *set) expect(t *testing.T, what, want string) {
	t.Helper()
	if got := s.names(); got != want {
		t.Errorf("%s: the members are %q, want %q", what, got, want)
	}
}

func TestDeadMembersStayAndAreSeenAgain(t *testing.T) {
	s := setOf("a", "b")
	if !s.lost(fakeID("a"), noon) || s.lost(fakeID("a"), noon) || s.lost(fakeID("x"), noon) {
		t.Error("a loss is a change once, and only of a member")
	}
	s.expect(t, "a died", "-a b")
	if !s.saw(host("a", "2"), noon) || s.saw(host("a", "2"), noon) {
		t.Error("a return is a change once")
	}
	s.expect(t, "a is back", "a b")
	if m := s.members[fakeID("a")]; m.Boot != fakeID("2") {
		t.Errorf("its boot id is %s", m.Boot)
	}
	if s.saw(host("self", "7"), noon) {
		t.Error("this host is no news")
	}
}

func TestARestartIsAChange(t *testing.T) {
	s := setOf("a")
	if !s.saw(host("a", "2"), noon) {
		t.Error("gossip's new boot id is no change")
	}
	if !s.met(greets(host("a", "3")), noon) || s.met(greets(host("a", "3")), noon) {
		t.Error("a greeting's boot id is a change once")
	}
}

func TestGossipAloneMakesNoMember(t *testing.T) {
	s := setOf("a")
	if !s.saw(host("b", "1"), noon) || s.addresses()[fakeID("b")] == "" {
		t.Error("nobody tries to connect to a host that was seen")
	}
	s.expect(t, "b was seen", "a")
	if len(s.roster(noon).Members) != 1 {
		t.Error("peers are told that it is a member")
	}
	if err := s.forget(fakeID("b"), noon); !errors.Is(err, ErrUnknown) {
		t.Errorf("forget it: %v", err)
	}
	s.lost(fakeID("b"), noon)
	if s.addresses()[fakeID("b")] != "" {
		t.Error("it is remembered after its end")
	}
	s.saw(host("b", "1"), noon)
	s.met(greets(host("b", "1")), noon)
	s.expect(t, "b has proved who it is", "a b")
	s.met(greets(host("c", "1")), noon)
	s.expect(t, "c has, and gossip did not see it yet", "-c a b")
	s.saw(host("d", "1"), noon)
	s.merge(setOf("d").roster(noon), noon)
	s.expect(t, "a peer says that d has", "-c a b d")
}

func TestWhoLeftIsGoneUntilItStartsAgain(t *testing.T) {
	s := setOf("a", "b")
	left := rosterGone{ID: fakeID("a"), Boot: fakeID("1"), Left: true}
	if !s.merge(roster{Gone: []rosterGone{left}}, noon) || s.merge(roster{Gone: []rosterGone{left}}, noon) {
		t.Error("a leave is a change once")
	}
	s.expect(t, "a left", "b")
	if s.saw(host("a", "1"), noon) {
		t.Error("gossip that lags behind brings it back")
	}
	if !s.hasLeft(fakeID("a"), fakeID("1")) || s.hasLeft(fakeID("a"), fakeID("2")) {
		t.Error("another run than the one that left is let in")
	}
	old := setOf("a").roster(noon)
	if s.merge(old, noon) {
		t.Error("a peer that did not hear of it brings it back")
	}
	if s.met(greets(host("a", "1")), noon) {
		t.Error("the run that left becomes a member")
	}
	s.saw(host("a", "2"), noon)
	s.met(greets(host("a", "2")), noon)
	s.expect(t, "a was started again", "a b")
	s.merge(roster{Gone: []rosterGone{left}}, noon)
	s.expect(t, "its leave of the earlier run is told again", "a b")
}

// tells makes what a peer tells of a: the boot ids of the member, if there is one, and of runs that are gone.
func tells(left bool, member string, ends ...string) roster {
	var r roster
	if member != "" {
		a := host("a", member)
		r.Members = []rosterMember{{ID: a.ID, Boot: a.Boot, Name: a.Name, Addr: a.Addr, Gossip: a.gossip}}
	}
	for _, boot := range ends {
		r.Gone = append(r.Gone, rosterGone{ID: fakeID("a"), Boot: fakeID(boot), Left: left})
	}
	return r
}

func TestAnEndIsThatOfEarlierRunsToo(t *testing.T) {
	sees := func(boot string) func(*set) {
		return func(s *set) { s.saw(host("a", boot), noon) }
	}
	meets := func(boot string) func(*set) {
		return func(s *set) { s.met(greets(host("a", boot)), noon) }
	}
	loses := func(s *set) { s.lost(fakeID("a"), noon) }
	for _, left := range []bool{true, false} {
		hears := func(member string, ends ...string) func(*set) {
			return func(s *set) { s.merge(tells(left, member, ends...), noon) }
		}
		for _, c := range []struct {
			what  string
			news  []func(*set)
			names string
		}{
			{"who was away hears of the end of run 2", []func(*set){hears("1"), hears("", "2")}, ""},
			{"who was cut off does", []func(*set){sees("1"), meets("1"), loses, hears("", "2")}, ""},
			{"who was away tells of run 1", []func(*set){hears("", "2"), hears("1")}, ""},
			{"it does after run 2 was here", []func(*set){sees("2"), meets("2"), loses, hears("", "2"), hears("1")}, ""},
			{"it tells again when it has heard of the end", []func(*set){hears("1"), hears("", "2"), hears("", "2"), hears("1")}, ""},
			{"it knows of an older end only", []func(*set){hears("", "1", "3"), hears("2", "1")}, ""},

			{"run 3 is alive, and the end of run 2 is late", []func(*set){sees("3"), meets("3"), hears("", "2")}, "a"},
			{"run 3 has greeted, and gossip is later still", []func(*set){meets("3"), hears("", "2")}, "-a"},
			{"run 3 replaced a dead run 1 by its greeting", []func(*set){hears("1"), meets("3"), hears("", "2")}, "-a"},
			{"run 3 came after the end of run 2", []func(*set){hears("", "2"), sees("3"), meets("3")}, "a"},
			{"it crashed, and the end of run 2 is told again", []func(*set){hears("", "2"), sees("3"), meets("3"), loses, hears("", "2")}, "-a"},
			{"who was away hears of the end and the return", []func(*set){hears("1"), hears("3", "2")}, "-a"},
			{"a new host does", []func(*set){hears("3", "2")}, "-a"},
			{"who knew of the end hears of the return", []func(*set){hears("", "2"), hears("3", "2")}, "-a"},
			{"who was away tells of run 1 after the return", []func(*set){hears("3", "2"), hears("1")}, "-a"},
			{"run 3 ended too", []func(*set){hears("3", "2"), hears("", "2", "3"), hears("3", "2")}, ""},
		} {
			s := setOf()
			for _, news := range c.news {
				news(s)
			}
			s.expect(t, fmt.Sprintf("%s (left: %t)", c.what, left), c.names)
		}
	}
}

func TestAReturnIsKeptOnDiskWithTheEndBeforeIt(t *testing.T) {
	s := setOf()
	s.merge(tells(true, "", "2"), noon)
	s.met(greets(host("a", "3")), noon)
	again := setOf()
	again.merge(s.roster(noon), noon)
	again.expect(t, "after a restart", "-a")
	again.merge(tells(true, "", "2"), noon)
	again.expect(t, "the end is told again", "-a")
}

func TestForgettingIsForEarlierRunsToo(t *testing.T) {
	s := setOf("a")
	s.met(greets(host("a", "2")), noon)
	s.lost(fakeID("a"), noon)
	if err := s.forget(fakeID("a"), noon); err != nil {
		t.Fatal(err)
	}
	away := setOf()
	away.merge(tells(false, "1"), noon)
	s.merge(away.roster(noon), noon)
	s.expect(t, "a host that was away tells of run 1", "")
	away.merge(s.roster(noon), noon)
	away.expect(t, "it hears that a is forgotten", "")
	s.met(greets(host("a", "3")), noon)
	away.merge(s.roster(noon), noon)
	away.expect(t, "it hears that a is back", "-a")
}

func TestALeaveIsNotThatOfACopyWhichIsAlive(t *testing.T) {
	s := setOf("a")
	s.merge(tells(true, "", "copy"), noon)
	s.expect(t, "a host with a's id left", "a")
	s.lost(fakeID("a"), noon)
	s.expect(t, "a died after it", "-a")
}

func TestForgettingIsForTheDead(t *testing.T) {
	s := setOf("a", "b")
	s.lost(fakeID("a"), noon)
	for id, want := range map[string]error{"a": nil, "b": ErrAlive, "self": ErrAlive, "x": ErrUnknown} {
		if err := s.forget(fakeID(id), noon); !errors.Is(err, want) {
			t.Errorf("forget %s: %v, want %v", id, err, want)
		}
	}
	s.expect(t, "a is forgotten", "b")

	other := setOf("a", "b")
	other.merge(s.roster(noon), noon)
	other.expect(t, "where a is alive nobody forgets it", "a b")
	other.lost(fakeID("a"), noon)
	other.merge(s.roster(noon), noon)
	other.expect(t, "where it is not", "b")
	other.merge(setOf("a").roster(noon), noon)
	other.expect(t, "and nobody brings it back", "b")
	other.saw(host("a", "1"), noon)
	other.met(greets(host("a", "1")), noon)
	other.expect(t, "but itself", "a b")
	if len(other.gone) != 0 {
		t.Error("it is both a member and gone")
	}
}

func TestMembersUnseenForADayAreForgottenByAMajority(t *testing.T) {
	s := setOf("a", "b")
	s.lost(fakeID("a"), noon)
	s.sweep(noon.Add(forgetAfter))
	s.expect(t, "after a day", "-a b")
	if got := s.sweep(noon.Add(forgetAfter + 1)); len(got) != 1 || got[0].Name != "a" {
		t.Errorf("forgotten: %v", got)
	}
	s.expect(t, "after more than a day", "b")
}

func TestAMinorityForgetsNobody(t *testing.T) {
	for _, dead := range [][]string{{"a", "b"}, {"a", "b", "c"}} {
		s := setOf(append([]string{"c"}, dead...)...) // self and c, or self alone, of four
		for _, d := range dead {
			s.lost(fakeID(d), noon)
		}
		if got := s.sweep(noon.Add(1000 * time.Hour)); len(got) > 0 {
			t.Errorf("%d of 4 are dead: %v are forgotten", len(dead), got)
		}
	}
}

func TestATimeBeforeTheStartDoesNotCount(t *testing.T) {
	s := setOf("b")
	s.merge(roster{Members: []rosterMember{{ID: fakeID("a"), Boot: fakeID("1"), Name: "a", Addr: "a:1", Gossip: "a:2", LastSeen: noon.Add(-1000 * time.Hour)}}}, noon)
	s.sweep(noon.Add(time.Hour))
	s.expect(t, "an hour after a start that found a weekend's absence", "-a b")
}

func TestAMemberWhoseAddressIsAnothersIsForgotten(t *testing.T) {
	s := setOf("a", "b")
	s.lost(fakeID("a"), noon)
	reborn := host("new", "1")
	reborn.gossip = "a:2"
	s.saw(reborn, noon)
	s.met(greets(reborn), noon)
	s.expect(t, "a host without a data directory came back", "b new")

	s = setOf("a", "b")
	s.saw(reborn, noon)
	s.met(greets(reborn), noon)
	s.expect(t, "its end was not seen yet", "a b new")
	s.lost(fakeID("a"), noon)
	s.expect(t, "its end was seen", "b new")

	s = setOf("b")
	own := host("before", "1")
	own.gossip = s.self.gossip
	s.merge(roster{Members: []rosterMember{{ID: own.ID, Boot: own.Boot, Name: own.Name, Addr: own.Addr, Gossip: own.gossip}}}, noon)
	s.expect(t, "this host's own earlier run", "b")
}

func TestOneNodeIDIsForOneHost(t *testing.T) {
	s := setOf("a")
	for _, c := range []struct {
		what               string
		id, boot, at, hear string
		refused            bool
	}{
		{"the member itself", "a", "1", "a:1", "a:2", false},
		{"after a restart", "a", "2", "a:1", "a:2", false},
		{"after a restart with another port for peers", "a", "2", "a:9", "a:2", false},
		{"elsewhere while it is alive", "a", "2", "x:1", "x:2", true},
		{"this host's id elsewhere", "self", "2", "x:1", "x:2", true},
		{"a new host", "n", "1", "n:1", "n:2", false},
	} {
		why := s.conflict(fakeID(c.id), fakeID(c.boot), c.at, c.hear)
		if (why != "") != c.refused {
			t.Errorf("%s: %q", c.what, why)
		}
	}
	s.lost(fakeID("a"), noon)
	if why := s.conflict(fakeID("a"), fakeID("2"), "x:1", "x:2"); why != "" {
		t.Errorf("a host that moved, and whose end was seen: %s", why)
	}
}

func TestWhoIsGoneIsBounded(t *testing.T) {
	s := setOf()
	for i := range maxGone + 10 {
		s.merge(roster{Gone: []rosterGone{{ID: fmt.Sprintf("%016x", i), Boot: fakeID("1"), Left: true}}}, noon.Add(time.Duration(i)))
	}
	if len(s.gone) != maxGone {
		t.Errorf("%d are kept", len(s.gone))
	}
	if _, ok := s.gone[run{fmt.Sprintf("%016x", 9), fakeID("1")}]; ok {
		t.Error("an old one is kept, a newer one is not")
	}
	s.sweep(noon.Add(keepGone + time.Hour))
	if len(s.gone) != 0 {
		t.Errorf("%d are kept for ever", len(s.gone))
	}
}
