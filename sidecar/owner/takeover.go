package owner

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// takeOverSoon begins to take over the shards of a view, in which a majority was first seen at a time. mu is held.
func (s *Seat) takeOverSoon(v *view, since int64) {
	term, stop := context.WithCancel(s.life)
	before := s.term
	s.term = func() { stop(); before() }
	s.running.Go(func() { s.takeOver(term, v, since) })
}

// takeOver serves the shards that this host owns in v: those that it served in the epoch before at once, the others when it has
// the newest copy and nobody before it can still decide.
func (s *Seat) takeOver(ctx context.Context, v *view, since int64) {
	var kept, others []int
	s.mu.Lock()
	for shard := range s.claims {
		switch {
		case v.owner(shard) != s.self.ID:
		case s.claims[shard] == claim{v.id.Epoch - 1, asOwner} && s.served[shard].Load() == v.id.Epoch-1:
			kept = append(kept, shard)
		default:
			others = append(others, shard)
		}
	}
	s.mu.Unlock()
	s.serve(v, kept, fromKept, "")
	if len(others) == 0 {
		return
	}
	found := s.surveyAll(ctx, v)
	if ctx.Err() != nil {
		return
	}
	s.bring(ctx, v, others, found, since)
}

// survey is what a host answered to one.
type survey struct {
	claims claims
	past   []*view // views that it had accepted within the last grace
	known  bool    // these are all
	last   uint64  // the highest epoch of its copies when it accepted the view
}

func (t *survey) append(b []byte) []byte {
	b = appendBool(t.claims.append(b), t.known)
	b = appendUint(appendUint(b, t.last), uint64(len(t.past)))
	for _, v := range t.past {
		b = v.append(b, v.id.Epoch)
	}
	return b
}

func readSurvey(r *reader) *survey {
	t := &survey{claims: readClaims(r), known: r.bool(), last: r.uint()}
	for range r.count(2) {
		t.past = append(t.past, readView(r, noView))
	}
	return t
}

// survey returns this host's own answer. mu is held.
func (s *Seat) survey() *survey {
	s.forgetPast(s.cfg.Clock())
	t := &survey{claims: s.claims, known: s.known, last: s.last}
	for _, p := range s.past {
		t.past = append(t.past, p.view)
	}
	return t
}

func (s *Seat) serveSurvey(_ context.Context, _ string, body []byte) ([]byte, error) {
	r := &reader{b: body}
	v := readView(r, s.view())
	if r.err != nil {
		return nil, r.err
	}
	s.accept(v)
	s.mu.Lock()
	defer s.mu.Unlock()
	accepted := s.view().id
	b := accepted.append(nil)
	if accepted != v.id {
		return b, nil
	}
	return s.survey().append(b), nil
}

// surveyAll asks all hosts that may know something. It waits for each that is heard or a member of v, for a grace at most: what an
// answer would have told may be that its copy is the newest.
func (s *Seat) surveyAll(ctx context.Context, v *view) map[string]*survey {
	s.m.surveys.Inc()
	limited, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	var (
		mu    sync.Mutex
		found = make(map[string]*survey)
		all   sync.WaitGroup
	)
	s.mu.Lock()
	found[s.self.ID] = s.survey()
	for _, m := range s.members() {
		p := s.peers[m.ID]
		if _, member := v.member(m.ID); !member && (p == nil || !p.heard(s.cfg.Clock())) {
			continue
		}
		all.Go(func() {
			if t := s.surveyOne(limited, v, m.ID); t != nil {
				mu.Lock()
				found[m.ID] = t
				mu.Unlock()
			}
		})
	}
	s.mu.Unlock()
	all.Wait()
	return found
}

// surveyOne asks a host until it answers. It returns nil if it did not.
func (s *Seat) surveyOne(ctx context.Context, v *view, id string) *survey {
	for ctx.Err() == nil {
		once, cancel := context.WithTimeout(ctx, time.Second)
		b, err := s.call(once, id, false, kindSurvey, v.append(nil, v.id.Epoch))
		cancel()
		if err == nil {
			r := &reader{b: b}
			if accepted := r.viewID(); r.err == nil && accepted == v.id {
				if t := readSurvey(r); r.err == nil {
					return t
				}
			}
		}
		pause(ctx, beat)
	}
	return nil
}

// pause waits for a while or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// mustWait says whether some host may still decide on a shard by an older view. Such a host had the answer of a majority, less than
// heardFor ago; one of those answers came from a host that answered this survey as well, if a majority did, and which tells all the views that it had
// accepted lately. So whoever may decide owns the shard in one of those. If it has answered too, it has accepted the new view.
func (s *Seat) mustWait(shard int, found map[string]*survey) bool {
	knowing := 0
	for _, t := range found {
		if t.known {
			knowing++
		}
		for _, v := range t.past {
			if owner := v.owner(shard); owner != "" && found[owner] == nil {
				return true
			}
		}
	}
	_, enough := s.majority()
	return knowing < enough
}

// newest returns the hosts that have copies of a shard, the newest first, and of those as new this host first.
func (s *Seat) newest(shard int, found map[string]*survey) []string {
	hosts := slices.DeleteFunc(slices.Sorted(maps.Keys(found)), func(id string) bool { return found[id].claims[shard].epoch == 0 })
	slices.SortStableFunc(hosts, func(a, b string) int {
		x, y := found[a].claims[shard], found[b].claims[shard]
		switch {
		case x.newer(y):
			return -1
		case y.newer(x):
			return 1
		case a == s.self.ID:
			return -1
		case b == s.self.ID:
			return 1
		}
		return 0
	})
	return hosts
}

// bring gets the newest copies of shards and serves them, those of each source by themselves. Shards of which a host that does not answer may have a
// newer copy wait for it: if it comes back there is another view, in which it is asked.
func (s *Seat) bring(ctx context.Context, v *view, shards []int, found map[string]*survey, since int64) {
	bySource, doubted := make(map[string][]int), make(map[string][]int)
	for _, shard := range shards {
		source, best := "", uint64(0)
		if hosts := s.newest(shard, found); len(hosts) > 0 {
			source = hosts[0]
			best = found[source].claims[shard].epoch
		}
		if mayBeOlder(shard, best, found) {
			doubted[source] = append(doubted[source], shard)
		} else {
			bySource[source] = append(bySource[source], shard)
		}
	}
	var all sync.WaitGroup
	defer all.Wait()
	s.bringEach(ctx, v, bySource, found, since, &all)
	if len(doubted) == 0 {
		return
	}
	if s.isMissing(found) {
		n := 0
		for _, shards := range doubted {
			n += len(shards)
		}
		s.says.warn("", "shards wait for a host that does not answer, for it may have the newest copy", "shards", n, "at_most", lostAfter.String(), "view", v.id.String())
		pause(ctx, time.Duration(since+lostAfter.Milliseconds()-s.cfg.Clock())*time.Millisecond)
		if ctx.Err() != nil {
			return
		}
	}
	s.tellOlder(v, doubted, found)
	s.bringEach(ctx, v, doubted, found, since, &all)
}

// bringEach gets and serves the shards of each source.
func (s *Seat) bringEach(ctx context.Context, v *view, bySource map[string][]int, found map[string]*survey, since int64, all *sync.WaitGroup) {
	for source, shards := range bySource {
		s.tellBrought(source, shards, found)
		all.Go(func() {
			switch {
			case source == "":
				s.serveInTime(ctx, v, shards, found, since, fromNone, "")
			case source == s.self.ID:
				s.tellOwn(shards, found)
				s.serveInTime(ctx, v, shards, found, since, fromOwn, "")
			default:
				s.bringFrom(ctx, v, source, shards, found, since)
			}
		})
	}
}

// isMissing says whether a member of the member set has not answered.
func (s *Seat) isMissing(found map[string]*survey) bool {
	return slices.ContainsFunc(s.members(), func(m Member) bool { return found[m.ID] == nil })
}

// mayBeOlder says whether a shard may have been served after its newest copy that was found was made, in best: in a view whose owner did
// not answer, or in one that nobody remembers. Who owned the shard in a view, answered, and does not claim to have served it did not.
func mayBeOlder(shard int, best uint64, found map[string]*survey) bool {
	last, since := best, make(map[uint64]bool)
	for _, t := range found {
		last = max(last, t.last)
		for _, v := range t.past {
			if v.id.Epoch <= best {
				continue
			}
			if owner := v.owner(shard); owner != "" && found[owner] == nil {
				return true
			}
			since[v.id.Epoch] = true
			last = max(last, v.id.Epoch)
		}
	}
	return uint64(len(since)) < last-best
}

// tellBrought tells tests of the copies that shards are to be served from.
func (s *Seat) tellBrought(source string, shards []int, found map[string]*survey) {
	if s.cfg.faults.brought == nil {
		return
	}
	for _, shard := range shards {
		best := uint64(0)
		if source != "" {
			best = found[source].claims[shard].epoch
		}
		s.cfg.faults.brought(shard, best)
	}
}

// tellOlder counts shards that are served although their newest copy, of those that were found, may lack what was decided last.
func (s *Seat) tellOlder(v *view, bySource map[string][]int, found map[string]*survey) {
	empty, older := 0, 0
	for source, shards := range bySource {
		if source == "" {
			empty += len(shards)
		} else {
			older += len(shards)
		}
	}
	s.m.empty.Add(float64(empty))
	s.m.older.Add(float64(older))
	s.says.warn("", "the newest copies of shards were not found: what was decided last may be lost", "older", older, "empty", empty, "view", v.id.String())
}

// tellDoubt counts those of the shards that are served from a copy in doubt, for no other is as new.
func (s *Seat) tellDoubt(shards []int, c *claims) {
	n := 0
	for _, shard := range shards {
		if c[shard].epoch > 0 && c[shard].role.inDoubt() {
			n++
		}
	}
	if n > 0 {
		s.m.older.Add(float64(n))
		s.says.warn("", "shards are served from copies of machines that were started anew: what was decided in the last second before may be lost", "shards", n)
	}
}

// tellOwn says that shards are served from a runner-up's copy: this host's.
func (s *Seat) tellOwn(shards []int, found map[string]*survey) {
	s.tellDoubt(shards, &found[s.self.ID].claims)
	n := 0
	for _, shard := range shards {
		if !found[s.self.ID].claims[shard].role.owner() {
			n++
		}
	}
	if n > 0 {
		s.says.warn("", "shards are served from a runner-up's copy, for their owner does not answer", "shards", n)
	}
}

// bringFrom pulls shards from a host and serves each as it comes. What cannot be had is looked for at the next best.
func (s *Seat) bringFrom(ctx context.Context, v *view, source string, shards []int, found map[string]*survey, since int64) {
	var waits sync.WaitGroup
	defer waits.Wait()
	serve := func(got []int) {
		from := fromOwner
		s.tellDoubt(got, &found[source].claims)
		if !found[source].claims[got[0]].role.owner() {
			from = fromRunnerUp
			s.says.warn("", "shards are served from a runner-up's copy, for their owner does not answer", "shards", len(got), "source", source)
		}
		waits.Go(func() { s.serveInTime(ctx, v, got, found, since, from, source) })
	}
	left := s.pull(ctx, v, source, shards, &found[source].claims, serve)
	for len(left) > 0 && ctx.Err() == nil && s.cfg.Clock() < since+lostAfter.Milliseconds() { // it has the newest copy, and a view without it comes soon if it is gone
		pause(ctx, beat)
		left = s.pull(ctx, v, source, left, &found[source].claims, serve)
	}
	if len(left) == 0 || ctx.Err() != nil {
		return
	}
	s.tellOlder(v, map[string][]int{source: left}, found)
	without := maps.Clone(found)
	lost := *found[source]
	for _, shard := range left {
		lost.claims[shard] = claim{}
	}
	without[source] = &lost // it answered, so it still counts for mustWait
	s.bring(ctx, v, left, without, since)
}

// serveInTime serves shards, whose newest copies are here, when nobody else can decide on them.
func (s *Seat) serveInTime(ctx context.Context, v *view, shards []int, found map[string]*survey, since int64, from, source string) {
	var now, later []int
	for _, shard := range shards {
		if !s.cfg.faults.noGrace && s.mustWait(shard, found) {
			later = append(later, shard)
		} else {
			now = append(now, shard)
		}
	}
	s.serve(v, now, from, source)
	if len(later) == 0 {
		return
	}
	for left := int64(1); left > 0 && ctx.Err() == nil; {
		if left = since + grace.Milliseconds() - s.cfg.Clock(); left > 0 {
			pause(ctx, time.Duration(left)*time.Millisecond)
		}
	}
	s.serve(v, later, from, source)
}

// serve begins to serve shards, if v is still the view. Their runner-up gets copies from here on: when it is source, which handed the shards
// over and thus has all of them, it gets the changes alone.
func (s *Seat) serve(v *view, shards []int, from, source string) {
	if len(shards) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view() != v {
		return
	}
	before := s.claims
	for _, shard := range shards {
		s.claims[shard] = claim{v.id.Epoch, asOwner}
		s.source[shard] = 0
	}
	if err := s.save(v); err != nil {
		s.claims = before
		s.says.warn("", "the epochs of copies cannot be kept, so shards are not served", "shards", len(shards), "error", err)
		s.taking = ViewID{} // the next heartbeat tries again
		return
	}
	s.says.log.Info("shards are served", "view", v.id.String(), "shards", len(shards), "copy", from, "source", source)
	s.m.taken.WithLabelValues(from).Add(float64(len(shards)))
	for _, shard := range shards {
		if from != fromKept {
			s.since[shard].Store(v.id.Epoch)
			s.direct(v, shard, from == fromOwner && source == v.runnerUp(shard))
		}
		s.served[shard].Store(v.id.Epoch)
	}
	s.broadcast()
}

// shardsOf returns the shards that a host owns in a view.
func (v *view) shardsOf(id string) (n int) {
	for shard := range store.Shards {
		if v.owner(shard) == id {
			n++
		}
	}
	return n
}
