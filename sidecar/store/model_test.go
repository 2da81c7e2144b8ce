package store

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// The reference: what must happen to a session, written down as plainly as can be. It forgets nothing;
// where the store may have forgotten, it allows both answers that are safe.

// visit is one acquisition of a session: a token and the fence that it was told.
type visit struct {
	token string
	fence uint64
}

// modelSession is all that ever happened to one id.
type modelSession struct {
	data      string
	has       bool
	expiresAt int64
	holder    string // of the last grant that was not released
	until     int64
	ended     bool   // by a command, so that it cannot be renewed
	grant     uint64 // the last grant
	destroyed uint64 // the last destruction's stamp is above the fences before it: the highest of those
	tombstone int64
	unsure    uint64 // up to here destructions may have left no tombstone
	blurred   uint64 // grants and destructions up to here may have been forgotten
	read      []visit
	free      []uint64 // fences of those who took no lock
	issued    uint64   // the highest fence that anyone was told
}

func (m *modelSession) record(now int64) bool { return m.has && now < m.expiresAt }
func (m *modelSession) live(now int64) bool   { return m.holder != "" && now < m.until }

// forgettable says whether the store may drop all that it knows of the id.
func (m *modelSession) forgettable(now int64) bool {
	return !m.record(now) && (m.holder == "" || m.until+remember <= now) && m.tombstone <= now
}

// age notes what may be forgotten at now.
func (m *modelSession) age(now int64) {
	if m.forgettable(now) {
		m.blurred = max(m.blurred, m.grant, m.destroyed)
	}
}

// trial is one random sequence.
type trial struct {
	*desk
	rnd   *rand.Rand
	ids   map[string]*modelSession
	locks map[string]map[string]*modelHold
	log   []note
	next  int
}

// note is one step, written out only when the trial fails.
type note struct {
	at     int64
	format string
	args   []any
}

type modelHold struct {
	until  int64 // 0: none
	shared bool
}

func (x *trial) fail(format string, args ...any) {
	x.t.Helper()
	for _, n := range x.log {
		x.t.Logf("%8d "+n.format, append([]any{n.at - start}, n.args...)...)
	}
	x.t.Fatalf(format, args...)
}

func (x *trial) note(format string, args ...any) {
	x.log = append(x.log, note{x.now, format, args})
}

func (x *trial) token() string {
	x.next++
	return fmt.Sprintf("t%d", x.next)
}

// some returns one of the visits to an id, most often the last.
func (x *trial) some(m *modelSession) (visit, bool) {
	if len(m.read) == 0 {
		return visit{}, false
	}
	if x.rnd.IntN(2) == 0 {
		return m.read[len(m.read)-1], true
	}
	return m.read[x.rnd.IntN(len(m.read))], true
}

func TestSessionsAndLocksAgreeWithTheReference(t *testing.T) {
	sequences := 1000
	if testing.Short() {
		sequences = 200
	}
	d := newDesk(t) // one for all: each sequence has a space of its own, and leaves nothing behind
	for seed := range uint64(sequences) {
		d.in = Space{Tenant: fmt.Sprint(seed)}
		x := &trial{
			desk: d, rnd: rand.New(rand.NewPCG(seed, 3)),
			ids: map[string]*modelSession{}, locks: map[string]map[string]*modelHold{},
		}
		for i := range 3 {
			x.ids[fmt.Sprintf("id%d", i)] = &modelSession{}
			x.locks[fmt.Sprintf("l%d", i)] = map[string]*modelHold{}
		}
		for range 80 {
			jumps := []int64{0, 0, 0, 1, 7, 100, 999, 1000, 1001, 30_000, remember - 1000, remember, remember + 1}
			x.now += jumps[x.rnd.IntN(len(jumps))]
			if x.rnd.IntN(3) == 0 {
				x.lockStep()
			} else {
				x.sessionStep()
			}
		}
		x.compareLists()
		x.sound()
		x.now += 100 * remember
		x.sweep()
		for name, holds := range x.locks {
			for token, h := range holds {
				if h.until == 0 {
					x.unlock(name, token)
				}
			}
		}
		x.empty()
	}
}

func (x *trial) sessionStep() {
	id := fmt.Sprintf("id%d", x.rnd.IntN(3))
	m := x.ids[id]
	m.age(x.now)
	defer func() { m.age(x.now) }()
	leases := []int64{1, 100, 1000, 30_000}
	lease := leases[x.rnd.IntN(len(leases))]
	switch x.rnd.IntN(12) {
	case 0, 1:
		x.openNew(id, m, lease)
	case 2:
		x.openAgain(id, m, lease)
	case 3, 4:
		x.commitLocked(id, m)
	case 5:
		x.releaseSession(id, m)
	case 6:
		x.lapseOrForce(id, m)
	case 7:
		x.renewSession(id, m, lease)
	case 8:
		x.destroySession(id, m)
	case 9:
		r := x.open(id, "", 0)
		x.note("read %s -> fence %d", id, r.Fence)
		x.checkData(id, m, r)
		m.free = append(m.free, r.Fence)
		m.issued = max(m.issued, r.Fence)
	case 10:
		x.commitFree(id, m)
	case 11:
		if got := x.do(Command{Op: OpSessionExists, Key: []byte(id)}).Found; got != m.record(x.now) {
			x.fail("exists %s: %v", id, got)
		}
		if x.rnd.IntN(3) == 0 {
			x.sweep()
		}
	}
}

func (x *trial) checkData(id string, m *modelSession, r Result) {
	x.t.Helper()
	if r.Found != m.record(x.now) || r.Found && string(r.Value) != m.data {
		x.fail("%s: the data is %q (%v), want %q (%v)", id, r.Value, r.Found, m.data, m.record(x.now))
	}
}

// granted notes a grant to token, which must be a new one.
func (x *trial) granted(id string, m *modelSession, r Result, token string, lease int64) {
	x.t.Helper()
	if !r.Locked {
		x.fail("open %s as %s: not granted, held by %q until %d", id, token, m.holder, m.until-start)
	}
	if r.Fence <= m.issued {
		x.fail("open %s as %s: fence %d after %d", id, token, r.Fence, m.issued)
	}
	m.holder, m.until, m.grant, m.issued = token, x.now+lease, r.Fence, r.Fence
	m.ended = false
	m.read = append(m.read, visit{token, r.Fence})
}

func (x *trial) openNew(id string, m *modelSession, lease int64) {
	token := x.token()
	r := x.open(id, token, lease)
	x.note("open %s as %s for %d -> locked %v fence %d", id, token, lease, r.Locked, r.Fence)
	x.checkData(id, m, r)
	if m.live(x.now) {
		if r.Status != Busy || r.Locked || r.Holder == nil || r.Holder.Token != m.holder {
			x.fail("open %s as %s: %+v although %s holds it", id, token, r, m.holder)
		}
		m.issued = max(m.issued, r.Fence)
		return
	}
	x.granted(id, m, r, token, lease)
}

func (x *trial) openAgain(id string, m *modelSession, lease int64) {
	v, ok := x.some(m)
	if !ok {
		return
	}
	r := x.open(id, v.token, lease)
	x.note("open %s again as %s for %d -> locked %v fence %d", id, v.token, lease, r.Locked, r.Fence)
	x.checkData(id, m, r)
	switch {
	case m.live(x.now) && m.holder != v.token:
		if r.Status != Busy {
			x.fail("open %s again as %s: %+v although %s holds it", id, v.token, r, m.holder)
		}
		m.issued = max(m.issued, r.Fence)
	case m.holder == v.token && m.destroyed < m.grant && r.Fence == m.grant:
		m.until, m.ended = x.now+lease, false // the same grant
	case m.holder == v.token && m.destroyed < m.grant && m.blurred < m.grant:
		x.fail("open %s again as %s: fence %d, want its grant's %d", id, v.token, r.Fence, m.grant)
	default:
		x.granted(id, m, r, v.token, lease)
	}
}

func (x *trial) commitLocked(id string, m *modelSession) {
	v, ok := x.some(m)
	if !ok {
		return
	}
	c := Command{
		Token: []byte(v.token), Fence: v.fence, TTL: 1 + x.rnd.Int64N(2*remember),
		Release: x.rnd.IntN(2) == 0, Touch: x.rnd.IntN(4) == 0,
	}
	if !c.Touch {
		c.Value = []byte(x.token())
	}
	held := m.holder == v.token && m.live(x.now)
	r := x.commit(id, c)
	x.note("commit %s as %s/%d %q touch %v release %v -> done %v released %v %v", id, v.token, v.fence, c.Value, c.Touch, c.Release, r.Done, r.Released, r.Reason)
	mustRefuse := m.destroyed > v.fence || m.grant > v.fence
	mayForget := v.fence <= m.blurred
	switch {
	case mustRefuse && r.Status != Refused:
		x.fail("a stale write was accepted: destroyed %d, last grant %d", m.destroyed, m.grant)
	case !mustRefuse && !mayForget && r.Status == Refused:
		x.fail("an innocent write was refused: %v", r.Reason)
	case r.Status == Refused && !mayForget && m.destroyed > v.fence && r.Reason != Destroyed,
		r.Status == Refused && !mayForget && m.destroyed <= v.fence && r.Reason != Superseded:
		x.fail("refused because %v", r.Reason)
	case r.Status == Refused:
		if r.Released != (c.Release && held) {
			x.fail("a refused write released: %v", r.Released)
		}
	case c.Touch && !m.record(x.now):
		if r.Done || r.Released {
			x.fail("a touch of nothing: %+v", r)
		}
		return
	case !r.Done:
		x.fail("a write was neither done nor refused")
	default:
		if !c.Touch {
			m.data = string(c.Value)
		}
		m.has, m.expiresAt = true, x.now+c.TTL
	}
	if c.Release && m.holder == v.token {
		m.holder = ""
	}
}

func (x *trial) commitFree(id string, m *modelSession) {
	if len(m.free) == 0 {
		return
	}
	fence := m.free[x.rnd.IntN(len(m.free))]
	c := Command{Fence: fence, Value: []byte(x.token()), TTL: 1 + x.rnd.Int64N(remember)}
	r := x.commit(id, c)
	x.note("commit %s without a lock, fence %d, %q -> done %v %v", id, fence, c.Value, r.Done, r.Reason)
	switch {
	case m.destroyed > fence && m.destroyed > m.unsure && m.tombstone > x.now && r.Status != Refused:
		x.fail("a write from before the destruction was accepted")
	case m.destroyed <= fence && !r.Done:
		x.fail("a write without a lock was refused: %v", r.Reason)
	}
	if r.Done {
		m.data, m.has, m.expiresAt = string(c.Value), true, x.now+c.TTL
	}
}

func (x *trial) releaseSession(id string, m *modelSession) {
	v, ok := x.some(m)
	if !ok {
		return
	}
	r := x.do(Command{Op: OpSessionRelease, Key: []byte(id), Token: []byte(v.token)})
	x.note("release %s as %s -> %v", id, v.token, r.Done)
	if want := m.holder == v.token && m.live(x.now); r.Done != want {
		x.fail("release: %v, want %v", r.Done, want)
	}
	if m.holder == v.token {
		m.holder = ""
	}
}

func (x *trial) lapseOrForce(id string, m *modelSession) {
	c := Command{Op: OpSessionForce, Key: []byte(id)}
	want := m.live(x.now)
	if v, ok := x.some(m); ok && x.rnd.IntN(3) > 0 {
		c.Op, c.Token = OpSessionLapse, []byte(v.token)
		want = want && m.holder == v.token
	}
	r := x.do(c)
	x.note("lapse or force (%d) %s as %s -> %v", c.Op, id, c.Token, r.Done)
	if r.Done != want {
		x.fail("%v, want %v", r.Done, want)
	}
	if want {
		m.until, m.ended = x.now, true
	}
}

func (x *trial) renewSession(id string, m *modelSession, lease int64) {
	v, ok := x.some(m)
	if !ok {
		return
	}
	r := x.do(Command{Op: OpSessionRenew, Key: []byte(id), Token: []byte(v.token), Lease: lease})
	x.note("renew %s as %s for %d -> %v", id, v.token, lease, r.Done)
	forgotten := m.blurred >= m.grant
	switch {
	case (m.holder != v.token || m.ended) && r.Done, m.holder == v.token && !m.ended && !r.Done && !forgotten:
		x.fail("renewal: %+v", r)
	case r.Done:
		m.until = x.now + lease
	}
}

func (x *trial) destroySession(id string, m *modelSession) {
	c := Command{Op: OpSessionDestroy, Key: []byte(id)}
	if v, ok := x.some(m); ok && x.rnd.IntN(2) == 0 {
		c.Token = []byte(v.token)
	}
	held := m.live(x.now) && m.holder == string(c.Token)
	// The store may have forgotten the lapsed lock, or a tombstone that there may be, and with it the reason for another.
	unsure := !m.record(x.now) && (m.holder != "" && !m.live(x.now) || m.tombstone > x.now && m.destroyed == m.unsure)
	traceless := !m.record(x.now) && m.tombstone <= x.now && (m.holder == "" || m.holder == string(c.Token))
	r := x.do(c)
	x.note("destroy %s as %q -> found %v released %v", id, c.Token, r.Found, r.Released)
	if r.Found != m.record(x.now) || r.Released != held {
		x.fail("destroy: %+v", r)
	}
	if traceless { // there was nothing to destroy, and nobody who read anything
		m.holder = ""
		m.blurred = max(m.blurred, m.grant)
		return
	}
	m.has = false
	m.destroyed, m.tombstone = m.issued+1, x.now+remember
	m.issued++
	if unsure {
		m.unsure = m.destroyed
	}
	if m.holder == string(c.Token) {
		m.holder = ""
	}
}

// lockStep takes one step with a named lock, of which nothing is forgotten and everything is exact.
func (x *trial) lockStep() {
	name := fmt.Sprintf("l%d", x.rnd.IntN(3))
	holds := x.locks[name]
	for token, h := range holds {
		if h.until != 0 && h.until <= x.now {
			delete(holds, token)
		}
	}
	token := fmt.Sprintf("k%d", x.rnd.IntN(4))
	lease := []int64{0, 1, 1000, 30_000}[x.rnd.IntN(4)]
	until := leaseEndOf(x.now, lease)
	switch x.rnd.IntN(5) {
	case 0, 1:
		shared := x.rnd.IntN(2) == 0
		free := true
		for other, h := range holds {
			if other != token && !(shared && h.shared) {
				free = false
			}
		}
		r := x.acquire(name, token, lease, shared)
		x.note("acquire %s as %s shared %v for %d -> %v", name, token, shared, lease, r.Status)
		if (r.Status == OK) != free {
			x.fail("acquire: %+v with %d holders", r, len(holds))
		}
		if free {
			holds[token] = &modelHold{until, shared}
		} else if holds[r.Holder.Token] == nil || r.Holder.Token == token {
			x.fail("acquire: in the way is %q, who holds nothing", r.Holder.Token)
		}
	case 2:
		got := x.unlock(name, token)
		x.note("release %s as %s -> %v", name, token, got)
		if got != (holds[token] != nil) {
			x.fail("release: %v", got)
		}
		delete(holds, token)
	case 3:
		r := x.do(Command{Op: OpLockRenew, Key: []byte(name), Token: []byte(token), Lease: lease})
		x.note("renew %s as %s for %d -> %v", name, token, lease, r.Done)
		if r.Done != (holds[token] != nil) {
			x.fail("renew: %+v", r)
		}
		if r.Done {
			holds[token].until = until
		}
	case 4:
		if x.rnd.IntN(5) > 0 {
			return
		}
		got := x.do(Command{Op: OpLockForce, Key: []byte(name)}).Done
		x.note("force %s -> %v", name, got)
		if got != (len(holds) > 0) {
			x.fail("force: %v", got)
		}
		clear(holds)
	}
}

func leaseEndOf(now, lease int64) int64 {
	if lease == 0 {
		return 0
	}
	return now + lease
}

// compareLists compares what the lists show with what is held.
func (x *trial) compareLists() {
	x.t.Helper()
	want := map[string]bool{}
	for id, m := range x.ids {
		if m.live(x.now) {
			want["session "+id+" "+m.holder] = true
		}
	}
	locks := len(want)
	for name, holds := range x.locks {
		any := false
		for token, h := range holds {
			if h.until == 0 || x.now < h.until {
				want["lock "+name+" "+token] = true
				any = true
			}
		}
		if any {
			locks++
		}
	}
	got := map[string]bool{}
	for _, l := range x.do(Command{Op: OpListHeld, Limit: 1000}).Locks {
		kind := "lock "
		if l.Session {
			kind = "session "
		}
		for _, h := range l.Holds {
			got[kind+l.Name+" "+h.Token] = true
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		x.fail("the list shows %v, held are %v", got, want)
	}
	if n := x.do(Command{Op: OpStats}).Stats.Locks; n != locks {
		x.fail("the statistics count %d locks, held are %d", n, locks)
	}
}
