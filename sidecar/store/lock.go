package store

import (
	"slices"
	"strings"
	"unsafe"
)

// lock is a named lock with its holders: one exclusive holder, or any number of shared ones, by ascending fence. A lock without
// holders has no entry.
type lock struct {
	deadline
	space  *space
	key    string
	shared bool
	holds  []hold
	cost   int64 // estimated memory, as charged
}

func (l *lock) drop(sh *shard) {
	sh.due.schedule(l, 0)
	sh.chargeLock(l, 0)
	delete(l.space.locks, l.key)
	sh.tidy(l.space)
}

// prune removes the holds whose lease is over.
func (l *lock) prune(now int64) {
	l.holds = slices.DeleteFunc(l.holds, func(h hold) bool { return !h.live(now) })
}

// find returns the index of the token's hold, or -1; l may be nil.
func (l *lock) find(token []byte) int {
	if l == nil {
		return -1
	}
	for i := range l.holds {
		if l.holds[i].is(token) {
			return i
		}
	}
	return -1
}

// chargeLock sets what a lock costs.
func (sh *shard) chargeLock(l *lock, cost int64) {
	l.space.bytes += cost - l.cost
	sh.charge(l.space, cost-l.cost)
	l.cost = cost
}

// holdSize is what a hold's place among others takes.
const holdSize = int64(unsafe.Sizeof(hold{}))

// costs returns what the lock takes, with the places that are kept for further holds.
func (l *lock) costs() int64 {
	cost := lockBase + roundUp(len(l.key)) + int64(cap(l.holds))*holdSize
	for i := range l.holds {
		cost += l.holds[i].cost()
	}
	return cost
}

// needOfHold returns what a grant to the command's token would take; l is nil when there is no lock yet.
func needOfHold(l *lock, c *Command) int64 {
	need := holdSize + grantCost(c)
	if l == nil {
		need += lockBase + roundUp(len(c.Key))
	}
	return need
}

// endLock drops a lock by command.
func (sh *shard) endLock(l *lock) {
	sh.note(encodeGone(recLockGone, l.space.name, l.key, sh.stamp))
	l.drop(sh)
}

// settleHold sets what follows from a hold that was granted or renewed at now.
func (sh *shard) settleHold(l *lock, own int, now int64) {
	sh.schedule(l)
	sh.note(func(b []byte) []byte { return l.encodeHold(b, own, now) })
}

// remove takes a hold out. The others stay in the order of their grants.
func (l *lock) remove(own int) { l.holds = slices.Delete(l.holds, own, own+1) }

// schedule sets when the lock's last lease ends, and what it costs.
func (sh *shard) schedule(l *lock) {
	if n := len(l.holds); cap(l.holds) > 4*n { // most have gone
		l.holds = append(make([]hold, 0, n), l.holds...)
	}
	sh.chargeLock(l, l.costs())
	var at int64
	for i := range l.holds {
		if l.holds[i].until == 0 {
			sh.due.schedule(l, 0)
			return
		}
		at = max(at, l.holds[i].until)
	}
	sh.due.schedule(l, at)
}

// lock returns the held lock of the command's name, or nil.
func (sh *shard) lock(c *Command) *lock {
	sp := sh.space(c)
	if sp == nil {
		return nil
	}
	l := sp.locks[string(c.Key)]
	if l == nil {
		return nil
	}
	if l.prune(c.Now); len(l.holds) == 0 {
		l.drop(sh)
		return nil
	}
	return l
}

func (sh *shard) acquireLock(c *Command) Result {
	l := sh.lock(c)
	if c.Queued && (l == nil || l.find(c.Token) < 0) {
		return l.busy()
	}
	own := l.find(c.Token)
	if other := l.inTheWay(own, c.Shared); other >= 0 {
		return l.holds[other].busy()
	}
	if need := needOfHold(l, c); own < 0 && !sh.fits(c, need) {
		return sh.full(c, need)
	}
	l = sh.makeLock(l, c)
	if own >= 0 { // a retry, or a conversion between shared and exclusive
		l.holds[own].until = leaseEnd(c.Now, c.Lease)
		if l.shared && !c.Shared { // others may have had higher fences while it was shared
			l.holds[own].fence = sh.next(c.Now)
		}
	} else {
		own = len(l.holds)
		l.holds = append(l.holds, sh.grant(c))
	}
	l.shared = c.Shared
	sh.settleHold(l, own, c.Now)
	return Result{Done: true, Fence: l.holds[own].fence}
}

// makeLock returns l, or a lock without holders of the command's name when it is nil.
func (sh *shard) makeLock(l *lock, c *Command) *lock {
	if l == nil {
		sp := sh.makeSpace(c)
		l = &lock{space: sp, key: string(c.Key)}
		sp.locks[l.key] = l
	}
	return l
}

// busy is the answer to those who must wait although the lock may be free; l may be nil.
func (l *lock) busy() Result {
	if l == nil {
		return Result{Status: Busy}
	}
	return l.holds[0].busy()
}

// inTheWay returns the index of a hold that keeps the asker out, or -1. own is the asker's hold, or -1; l may be nil.
func (l *lock) inTheWay(own int, shared bool) int {
	if l == nil || shared && l.shared {
		return -1
	}
	for i := range l.holds {
		if i != own {
			return i
		}
	}
	return -1
}

func (sh *shard) renewLock(c *Command) Result {
	if l := sh.lock(c); l != nil {
		if own := l.find(c.Token); own >= 0 {
			l.holds[own].until = leaseEnd(c.Now, c.Lease)
			sh.settleHold(l, own, c.Now)
			return Result{Done: true, Fence: l.holds[own].fence}
		}
	}
	return refused(NotHolder)
}

func (sh *shard) releaseLock(c *Command) Result {
	l := sh.lock(c)
	if l == nil {
		return Result{}
	}
	own := l.find(c.Token)
	if own < 0 {
		return Result{}
	}
	if l.remove(own); len(l.holds) == 0 {
		sh.endLock(l)
		return Result{Done: true}
	}
	sh.schedule(l)
	sh.note(func(b []byte) []byte { return l.encodeHoldGone(b, c.Token, c.Now) })
	return Result{Done: true}
}

func (sh *shard) forceLock(c *Command) Result {
	l := sh.lock(c)
	if l == nil {
		return Result{}
	}
	sh.endLock(l)
	return Result{Done: true}
}

func (l *lock) info() LockInfo {
	i := LockInfo{Space: l.space.name, Name: l.key, Shared: l.shared}
	for k := range l.holds {
		i.Holds = append(i.Holds, l.holds[k].info())
	}
	return i
}

func (sh *shard) lockInfo(c *Command) Result {
	l := sh.lock(c)
	if l == nil {
		return Result{}
	}
	return Result{Found: true, Done: l.find(c.Token) >= 0, Locks: []LockInfo{l.info()}}
}

func (s *Store) listLocks(c *Command) Result {
	var r Result
	s.each(c, func(sh *shard) bool {
		sp := sh.space(c)
		return sp == nil || sp.listLocks(c, &r)
	})
	return r
}

// listLocks adds the space's named locks to a listing, and says whether it may go on.
func (sp *space) listLocks(c *Command, r *Result) bool {
	for name, l := range sp.locks {
		if len(r.Locks) >= c.Limit {
			return false
		}
		if !strings.HasPrefix(name, string(c.Match)) {
			continue
		}
		if l.prune(c.Now); len(l.holds) > 0 {
			r.Locks = append(r.Locks, l.info())
		}
	}
	return true
}

// of says whether a listing of a tenant, or of all, is about a space. What others have is not even looked at: it would cost the asker's time.
func (c *Command) of(sp *space) bool { return c.Space.Tenant == "" || c.Space.Tenant == sp.name.Tenant }

func (s *Store) listHeld(c *Command) Result {
	var r Result
	s.each(c, func(sh *shard) bool {
		for _, sp := range sh.order {
			if c.of(sp) && !(sp.listLocks(c, &r) && sp.listHeldSessions(c, &r)) {
				return false
			}
		}
		return true
	})
	return r
}

// listHeldSessions adds the locks of the space's sessions to a listing, and says whether it may go on.
func (sp *space) listHeldSessions(c *Command, r *Result) bool {
	for x := range sp.held {
		if len(r.Locks) >= c.Limit {
			return false
		}
		if x.hold.live(c.Now) && strings.HasPrefix(x.key, string(c.Match)) {
			r.Locks = append(r.Locks, LockInfo{
				Space: sp.name, Name: x.key, Session: true, Holds: []Hold{x.hold.info()},
			})
		}
	}
	return true
}
