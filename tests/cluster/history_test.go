package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// verdict is what is wrong with histories.
type verdict struct {
	lost  int      // acknowledged writes that a later reader did not see
	wrong []string // what may not happen in any case
}

// judge looks at all visits, when the crowd has left, and at what a host says is stored. Sessions of the hosts that were struck may have lost so
// many acknowledged writes together as the documents allow; the others may have lost none.
func (c *crowd) judge(ask *host, allowed int, struck ...*host) {
	t := c.t
	t.Helper()
	c.leave()
	lost, total := 0, 0
	for _, s := range c.sessions {
		final := s.read(t, ask)
		v := s.judge(final)
		for _, w := range v.wrong {
			t.Errorf("session %s: %s", s.id[:6], w)
		}
		if v.lost > 0 && !slices.Contains(struck, s.owner) {
			t.Errorf("session %s of %s, which was not struck, lost %d acknowledged writes", s.id[:6], s.owner, v.lost)
		}
		lost += v.lost
		total += final
	}
	n := c.tally(0)
	t.Logf("visits: %s; %d counted in the end; %d acknowledged writes lost", tallied(n), total, lost)
	if lost > allowed {
		t.Errorf("%d acknowledged writes were lost, %d may be", lost, allowed)
	}
	if n[stored] == 0 {
		t.Error("nothing was stored")
	}
}

// read returns what is stored, as soon as a host can tell.
func (s *session) read(t testing.TB, h *host) (n int) {
	t.Helper()
	eventually(t, patience, "the session can be read", func() (bool, string) {
		answer, err := h.ask("session.open", pairs("id", s.id))
		if err != nil {
			return false, err.Error()
		}
		data := answer.(map[string]any)["data"]
		if s.byPHP {
			data = strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%s", data), "n|i:"), ";")
		}
		n, err = count(data)
		return err == nil, fmt.Sprint(err)
	})
	return n
}

// judge checks the visits of a session.
func (s *session) judge(final int) (v verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.checkOutcomes(s.visits)
	v.checkHolders(s.visits)
	v.checkFences(s.visits)
	v.checkWrites(s.visits, final)
	return v
}

func (v *verdict) fail(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

func (v *verdict) checkOutcomes(visits []visit) {
	for _, one := range visits {
		if one.what == odd {
			v.fail("an answer that is none: %+v", one)
		}
	}
}

// wasGranted says whether the visit had the lock.
func (one *visit) wasGranted() bool { return one.fence > 0 }

// heldUntil is until when the visit held the lock for certain: it had not asked for its end, and its first lease, which began
// after it asked for the lock, was not over.
func (one *visit) heldUntil() time.Duration {
	until := one.called + lease
	if one.storing > 0 {
		until = min(until, one.storing)
	}
	return until
}

// checkHolders finds two who held the lock at the same time.
func (v *verdict) checkHolders(visits []visit) {
	var held []visit
	for _, one := range visits {
		if one.wasGranted() && one.heldUntil() > one.granted {
			held = append(held, one)
		}
	}
	slices.SortFunc(held, func(a, b visit) int { return cmp.Compare(a.granted, b.granted) })
	for i := 1; i < len(held); i++ {
		if a, b := &held[i-1], &held[i]; b.granted < a.heldUntil() {
			v.fail("two held the lock: %+v and %+v", *a, *b)
		}
	}
}

// checkFences finds a lock that was asked for after another had been granted, and got no higher fence.
func (v *verdict) checkFences(visits []visit) {
	granted := slices.DeleteFunc(slices.Clone(visits), func(one visit) bool { return !one.wasGranted() })
	byGrant := slices.SortedFunc(slices.Values(granted), func(a, b visit) int { return cmp.Compare(a.granted, b.granted) })
	byCall := slices.SortedFunc(slices.Values(granted), func(a, b visit) int { return cmp.Compare(a.called, b.called) })
	var last visit // the highest fence that was granted before
	next := 0
	for _, one := range byCall {
		for next < len(byGrant) && byGrant[next].granted < one.called {
			if byGrant[next].fence > last.fence {
				last = byGrant[next]
			}
			next++
		}
		if one.fence <= last.fence {
			v.fail("fence %d was granted after fence %d: %+v and %+v", one.fence, last.fence, one, last)
		}
	}
}

// checkWrites finds acknowledged writes that were not there later. Each costs the count of those that went on from before it.
func (v *verdict) checkWrites(visits []visit, final int) {
	acked := slices.DeleteFunc(slices.Clone(visits), func(one visit) bool { return one.what != stored })
	slices.SortFunc(acked, func(a, b visit) int { return cmp.Compare(a.fence, b.fence) })
	open := 0
	for _, one := range visits {
		if one.what == unknownCommit {
			open++
		}
	}
	for i := 1; i < len(acked); i++ {
		if acked[i].fence == acked[i-1].fence {
			v.fail("two writes by one fence: %+v and %+v", acked[i-1], acked[i])
		}
		if back := acked[i-1].wrote - acked[i].read; back > 0 {
			v.lost += back
		}
	}
	if len(acked) > 0 {
		v.lost += max(0, acked[len(acked)-1].wrote-final)
	}
	if final > len(acked)+open {
		v.fail("%d is stored, of %d acknowledged writes and %d unknown ones", final, len(acked), open)
	}
	if final < len(acked)-v.lost {
		v.fail("%d is stored, of %d acknowledged writes, and only %d are seen to be lost", final, len(acked), v.lost)
	}
}

// gap returns the longest time between from and to in which no visit of the session ended well on any of its hosts.
func (s *session) gap(from, to time.Duration) (longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := from
	for _, one := range s.visits {
		if one.what == stored && one.over > from && one.over < to {
			longest, last = max(longest, one.over-last), one.over
		}
	}
	return max(longest, to-last)
}

// gaps returns the longest and the middle one of the gaps of sessions.
func gaps(sessions []*session, from, to time.Duration) (longest, middle time.Duration) {
	var all []time.Duration
	for _, s := range sessions {
		all = append(all, s.gap(from, to))
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[len(all)-1], all[len(all)/2]
}

// TestTheJudgeSeesWhatIsWrong, or histories would prove nothing.
func TestTheJudgeSeesWhatIsWrong(t *testing.T) {
	const ms = time.Millisecond
	good := []visit{
		{called: 0, granted: 1 * ms, storing: 2 * ms, over: 3 * ms, fence: 1, read: 0, wrote: 1},
		{called: 1 * ms, granted: 4 * ms, storing: 5 * ms, over: 6 * ms, fence: 2, read: 1, wrote: 2},
	}
	for _, c := range []struct {
		what  string
		spoil func(v []visit) (final int)
		wrong string
		lost  int
	}{
		{"nothing", func([]visit) int { return 2 }, "", 0},
		{"two holders", func(v []visit) int { v[1].granted = 1500 * time.Microsecond; return 2 }, "two held the lock", 0},
		{"a fence that does not grow", func(v []visit) int {
			v[1].called, v[0].fence = 2*ms, 3
			v[0].read, v[0].wrote, v[1].wrote = 2, 3, 2
			return 3
		}, "was granted after", 0},
		{"a write that the next did not read", func(v []visit) int { v[1].read, v[1].wrote = 0, 1; return 1 }, "", 1},
		{"a write that is not there", func([]visit) int { return 1 }, "", 1},
		{"more than was written", func([]visit) int { return 3 }, "is stored, of 2", 0},
	} {
		visits := slices.Clone(good)
		final := c.spoil(visits)
		v := (&session{visits: visits}).judge(final)
		said := strings.Join(v.wrong, "\n")
		if v.lost != c.lost || c.wrong == "" && said != "" || !strings.Contains(said, c.wrong) {
			t.Errorf("%s: %d lost, and: %s", c.what, v.lost, said)
		}
	}
}
