package store

import (
	"strings"
	"time"
)

// remember is how long an ended lease and a destroyed session are remembered, so that their late writer can be
// told from a stale one. It bounds memory only: what is forgotten is refused.
const remember = int64(time.Hour / time.Millisecond)

// session is all that is known of one session id: the record, its lock, and what a late writer must be told.
type session struct {
	deadline
	space     *space
	key       string
	data      []byte // nil: no record
	expiresAt int64  // of the record
	hold      hold   // the current or last grant; cleared by its own release
	grant     uint64 // the last grant's fence
	destroyed uint64 // stamp of the last destruction; 0: none that is remembered
	tombstone int64  // until when the destruction is remembered
	cost      int64  // estimated memory, as charged
	fresh     bool   // data changed since the last record of it
}

func (x *session) drop(sh *shard) {
	sh.due.schedule(x, 0)
	sh.forgotten = max(sh.forgotten, x.grant, x.destroyed)
	sh.setData(x, nil)
	sh.setHold(x, hold{})
	sh.chargeSession(x, 0)
	delete(x.space.sessions, x.key)
	sh.tidy(x.space)
}

// setData replaces the record; nil removes it.
func (sh *shard) setData(x *session, data []byte) {
	if x.data != nil {
		x.space.records--
	}
	if data != nil {
		x.space.records++
	}
	x.data, x.fresh = data, true
}

// setHold replaces the session's grant; the zero hold ends it.
func (sh *shard) setHold(x *session, h hold) {
	x.hold = h
	switch {
	case h.token == "":
		delete(x.space.held, x)
	case x.space.held == nil:
		x.space.held = map[*session]struct{}{x: {}}
	default:
		x.space.held[x] = struct{}{}
	}
}

// has says whether there is a record at now.
func (x *session) has(now int64) bool { return x.data != nil && now < x.expiresAt }

// chargeSession sets what a session costs.
func (sh *shard) chargeSession(x *session, cost int64) {
	x.space.bytes += cost - x.cost
	sh.charge(x.space, cost-x.cost)
	x.cost = cost
}

func sessionCost(id, data int) int64 { return sessBase + roundUp(id) + int64(data) }

// costs returns what the session takes, with its hold.
func (x *session) costs() int64 {
	return sessionCost(len(x.key), cap(x.data)) + x.holdCost()
}

// holdCost returns what the hold takes, and the place by which it is found.
func (x *session) holdCost() int64 {
	if x.hold.token == "" {
		return 0
	}
	return heldSlot + x.hold.cost()
}

// settle drops what is over and sets the time at which the rest is.
func (sh *shard) settle(x *session, now int64) {
	if !x.has(now) {
		sh.setData(x, nil)
	}
	if x.tombstone <= now {
		x.tombstone = 0
	}
	at := x.end()
	if at <= now {
		sh.note(encodeGone(recSessionGone, x.space.name, x.key, max(x.grant, x.destroyed)))
		x.drop(sh)
		return
	}
	sh.due.schedule(x, at)
	sh.chargeSession(x, x.costs())
	sh.note(func(b []byte) []byte { return x.encode(b, x.fresh) })
	x.fresh = false
}

// end returns when nothing of the session needs to be known any more.
func (x *session) end() int64 {
	var at int64
	if x.data != nil {
		at = x.expiresAt
	}
	if x.hold.token != "" {
		at = max(at, later(x.hold.until, remember))
	}
	return max(at, x.tombstone)
}

// session returns the entry of the command's id, or nil. What is over is gone.
func (sh *shard) session(c *Command) *session {
	sp := sh.space(c)
	if sp == nil {
		return nil
	}
	x := sp.sessions[string(c.Key)]
	if x != nil && x.over(c.Now) {
		x.drop(sh)
		return nil
	}
	return x
}

// makeSession returns the entry of the command's id and makes it when it is missing.
func (sh *shard) makeSession(c *Command) *session {
	if x := sh.session(c); x != nil {
		return x
	}
	sp := sh.makeSpace(c)
	x := &session{space: sp, key: string(c.Key)}
	sp.sessions[x.key] = x
	return x
}

// record adds the session's data to a result.
func (x *session) record(r Result, now int64) Result {
	if x != nil && x.has(now) {
		r.Value, r.Found = x.data, true
	}
	return r
}

func (sh *shard) openSession(c *Command) Result {
	x := sh.session(c)
	if len(c.Token) == 0 {
		// Whoever destroys the session from here on gets a higher stamp.
		return x.record(Result{Fence: sh.next(c.Now)}, c.Now)
	}
	held := x != nil && x.hold.live(c.Now)
	mine := held && x.hold.is(c.Token)
	if !mine && (held || c.Queued) {
		r := Result{Status: Busy}
		if held {
			r = x.hold.busy()
		}
		if !c.WantOld {
			return r
		}
		r.Fence = sh.next(c.Now)
		return x.record(r, c.Now)
	}
	if need := sessionCost(len(c.Key), 0) + heldSlot + grantCost(c); x == nil && !sh.fits(c, need) {
		return sh.full(c, need)
	}
	x = sh.makeSession(c)
	// A retry gets the same grant: the answer to the first may have been lost.
	if retry := x.hold.is(c.Token) && x.destroyed < x.hold.fence; !retry {
		sh.setHold(x, sh.grant(c))
		x.grant = x.hold.fence
	}
	x.hold.until = later(c.Now, c.Lease) // not 0, which settle would take for long ago
	x.hold.ended = false
	sh.settle(x, c.Now)
	return x.record(Result{Locked: true, Fence: x.hold.fence}, c.Now)
}

// judge says why a write must not happen; x may be nil.
func (sh *shard) judge(x *session, c *Command) Reason {
	switch {
	case c.Fence > sh.latest(c.Now):
		return NotHolder // never issued here: it would outrank every later grant
	case x != nil && x.destroyed > c.Fence:
		return Destroyed
	case len(c.Token) == 0:
		return NoReason
	case (x == nil || x.grant == 0) && c.Fence <= sh.forgotten:
		return Forgotten // whoever writes without a lock makes a new entry, but knows nothing of the old one
	case x == nil:
		return NoReason
	case x.grant > c.Fence:
		return Superseded
	case x.hold.token != "" && !x.hold.is(c.Token):
		return NotHolder
	}
	return NoReason
}

func (sh *shard) commitSession(c *Command) Result {
	x := sh.session(c)
	if why := sh.judge(x, c); why != NoReason {
		r := refused(why)
		r.Released = c.Release && sh.endHold(x, c)
		return r
	}
	if c.Touch && (x == nil || !x.has(c.Now)) {
		return Result{}
	}
	if need := sh.growth(x, c); !sh.fits(c, need) {
		return sh.full(c, need)
	}
	x = sh.makeSession(c)
	if !c.Touch {
		sh.setData(x, append(make([]byte, 0, len(c.Value)), c.Value...))
	}
	x.expiresAt = later(c.Now, c.TTL)
	if len(c.Token) > 0 {
		x.grant = max(x.grant, c.Fence)
		sh.stamp = max(sh.stamp, c.Fence) // it may be from before a restart
	}
	r := Result{Done: true, Fence: x.grant}
	if c.Release && x.hold.is(c.Token) {
		r.Released = true
		sh.setHold(x, hold{})
	}
	sh.settle(x, c.Now)
	return r
}

// growth returns how much memory a write needs beyond what the session has; x may be nil.
func (sh *shard) growth(x *session, c *Command) int64 {
	if c.Touch {
		return 0
	}
	need := sessionCost(len(c.Key), len(c.Value))
	if x != nil {
		need += x.holdCost() - x.cost
	}
	return need
}

// endHold releases the session's lock if the command's token took it.
func (sh *shard) endHold(x *session, c *Command) bool {
	if x == nil || !x.hold.is(c.Token) {
		return false
	}
	held := x.hold.live(c.Now)
	sh.setHold(x, hold{})
	sh.settle(x, c.Now)
	return held
}

func (sh *shard) releaseSession(c *Command) Result {
	return Result{Done: sh.endHold(sh.session(c), c)}
}

// lapseSession ends a lease whose client has gone. Its grant stays known: if the client comes back by another
// connection before anyone else came, its write is welcome.
func (sh *shard) lapseSession(c *Command) Result {
	x := sh.session(c)
	if x == nil || !x.hold.is(c.Token) {
		return Result{}
	}
	return sh.lapse(x, c.Now)
}

func (sh *shard) forceSession(c *Command) Result {
	x := sh.session(c)
	if x == nil {
		return Result{}
	}
	return sh.lapse(x, c.Now)
}

func (sh *shard) lapse(x *session, now int64) Result {
	if !x.hold.live(now) {
		return Result{}
	}
	x.hold.until, x.hold.ended = now, true
	sh.settle(x, now)
	return Result{Done: true}
}

// renewSession lengthens the lease of the last grant, also when it has just run out and nobody else came; not
// when it was ended by an operator, or because its client has gone.
func (sh *shard) renewSession(c *Command) Result {
	x := sh.session(c)
	if x == nil || !x.hold.is(c.Token) || x.hold.ended {
		return refused(NotHolder)
	}
	x.hold.until = later(c.Now, c.Lease)
	sh.settle(x, c.Now)
	return Result{Done: true, Fence: x.hold.fence}
}

// destroySession leaves a tombstone for those who read the session before. Where there was no session and nobody
// else has asked for its lock, there are none, and no entry is made: names that were made up cost nothing.
func (sh *shard) destroySession(c *Command) Result {
	x := sh.session(c)
	if x == nil {
		return Result{}
	}
	r := Result{Found: x.has(c.Now)}
	if !r.Found && x.tombstone == 0 && (x.hold.token == "" || x.hold.is(c.Token)) {
		r.Released = sh.endHold(x, c)
		return r
	}
	sh.setData(x, nil)
	x.destroyed = sh.next(c.Now)
	x.tombstone = later(c.Now, remember)
	if x.hold.is(c.Token) {
		r.Released = x.hold.live(c.Now)
		sh.setHold(x, hold{})
	}
	sh.settle(x, c.Now)
	return r
}

func (sh *shard) sessionExists(c *Command) Result {
	x := sh.session(c)
	return Result{Found: x != nil && x.has(c.Now)}
}

func (s *Store) listSessions(c *Command) Result {
	var r Result
	s.each(c, func(sh *shard) bool {
		for _, sp := range sh.order {
			if c.of(sp) && !sp.listSessions(c, &r) {
				return false
			}
		}
		return true
	})
	return r
}

// listSessions adds the space's sessions to a listing, and says whether it may go on.
func (sp *space) listSessions(c *Command, r *Result) bool {
	for _, x := range sp.sessions {
		if len(r.Sessions) >= c.Limit {
			return false
		}
		if x.has(c.Now) && strings.HasPrefix(x.key, string(c.Match)) {
			r.Sessions = append(r.Sessions, SessionInfo{
				Space: sp.name, ID: x.key, Size: len(x.data),
				ExpiresAt: x.expiresAt, Locked: x.hold.live(c.Now),
			})
		}
	}
	return true
}
