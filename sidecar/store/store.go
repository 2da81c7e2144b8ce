package store

import (
	"sync"

	"github.com/cespare/xxhash/v2"
)

// Shards is the number of shards. A sweep names one of them by its index.
const Shards = 256

// Store is the state. It is safe for concurrent use; its zero value is not ready, use [New].
type Store struct {
	shards [Shards]shard
}

// New returns an empty store.
func New() *Store {
	s := new(Store)
	for i := range s.shards {
		s.shards[i].spaces = make(map[Space]*space)
		s.shards[i].held = make(map[*session]struct{})
	}
	return s
}

// shard is a part of the keys with all that belongs to them.
type shard struct {
	mu     sync.Mutex
	spaces map[Space]*space
	due    deadlines // sessions and locks, by when they can be dropped
	stamp  uint64    // the last one issued

	held map[*session]struct{} // sessions whose hold is not empty, lapsed or not

	// forgotten is the highest fence of a session grant whose entry was dropped. A locked write to an id
	// without an entry is refused unless its fence is higher: who came after it is no longer known.
	forgotten uint64

	// removed holds, per slot of the key's hash, the stamp of the last removal of a value: the version of missing keys.
	removed [64]uint64

	_ [64]byte // shards of neighbouring index share no cache line
}

// space is what one Space has in one shard.
type space struct {
	name     Space
	bucket   bucket
	sessions map[string]*session
	records  int // sessions that have data
	locks    map[string]*lock
}

// space returns the named space, or nil when nothing is in it.
func (sh *shard) space(c *Command) *space { return sh.spaces[c.Space] }

// makeSpace returns the named space and makes it when it is missing.
func (sh *shard) makeSpace(c *Command) *space {
	sp := sh.spaces[c.Space]
	if sp == nil {
		sp = &space{
			name:     c.Space,
			bucket:   newBucket(),
			sessions: make(map[string]*session),
			locks:    make(map[string]*lock),
		}
		sh.spaces[c.Space] = sp
	}
	return sp
}

// tidy drops the space when its last entry has gone, so that names of buckets cannot pile up.
func (sh *shard) tidy(sp *space) {
	if len(sp.bucket.values)+len(sp.sessions)+len(sp.locks) == 0 {
		delete(sh.spaces, sp.name)
	}
}

// stampBits is how far the time is shifted in a stamp: 65,536 stamps a millisecond before stamps run ahead of the time, and 63 bits last until the year 6429.
const stampBits = 16

// latest returns the highest stamp that can have been issued at now.
func (sh *shard) latest(now int64) uint64 { return max(sh.stamp, uint64(now)<<stampBits) }

// next issues a stamp.
func (sh *shard) next(now int64) uint64 {
	sh.stamp = max(sh.stamp+1, uint64(now)<<stampBits)
	return sh.stamp
}

// commands is the table of the single-key commands.
var commands = [opSingleKeys]func(*shard, *Command) Result{
	OpSessionOpen:    (*shard).openSession,
	OpSessionCommit:  (*shard).commitSession,
	OpSessionRelease: (*shard).releaseSession,
	OpSessionLapse:   (*shard).lapseSession,
	OpSessionRenew:   (*shard).renewSession,
	OpSessionDestroy: (*shard).destroySession,
	OpSessionExists:  (*shard).sessionExists,
	OpSessionForce:   (*shard).forceSession,
	OpLockAcquire:    (*shard).acquireLock,
	OpLockRenew:      (*shard).renewLock,
	OpLockRelease:    (*shard).releaseLock,
	OpLockInfo:       (*shard).lockInfo,
	OpLockForce:      (*shard).forceLock,
	OpGet:            (*shard).get,
	OpSet:            (*shard).set,
	OpDel:            (*shard).del,
	OpGetDel:         (*shard).getDel,
	OpExpire:         (*shard).expire,
	OpTTL:            (*shard).ttl,
	OpIncr:           (*shard).incr,
	OpAppend:         (*shard).append,
	OpVersion:        (*shard).version,
}

// Apply runs one command and returns its result.
func (s *Store) Apply(c *Command) Result {
	if c.Op < opSingleKeys {
		sh := &s.shards[position(c.Key)>>positionShift]
		sh.mu.Lock()
		defer sh.mu.Unlock()
		return commands[c.Op](sh, c)
	}
	switch c.Op {
	case OpScan:
		return s.scan(c)
	case OpFlush:
		return s.flush(c)
	case OpListLocks:
		return s.listLocks(c)
	case OpListHeld:
		return s.listHeld(c)
	case OpListSession:
		return s.listSessions(c)
	case OpStats:
		return s.stats(c)
	case OpSweep:
		return s.sweep(c)
	}
	panic("store: unknown command")
}

// positionShift turns a position into its shard's index.
const positionShift = 63 - 8

// position returns where a key stands in the order of a scan: 63 bits of its hash, whose
// highest eight are the shard.
func position(key []byte) uint64 { return xxhash.Sum64(key) >> 1 }

// each calls visit for each shard in ascending order, under its mutex, until visit returns false.
func (s *Store) each(visit func(*shard) bool) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		more := visit(sh)
		sh.mu.Unlock()
		if !more {
			return
		}
	}
}

func (s *Store) stats(c *Command) Result {
	var st Stats
	s.each(func(sh *shard) bool {
		for _, sp := range sh.spaces {
			st.Values += len(sp.bucket.values)
			st.Sessions += sp.records
			for _, l := range sp.locks {
				if l.prune(c.Now); len(l.holds) > 0 {
					st.Locks++
				}
			}
		}
		for x := range sh.held {
			if x.hold.live(c.Now) {
				st.Locks++
			}
		}
		return true
	})
	return Result{Stats: st}
}
