package store

import (
	"cmp"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// Shards is the number of shards. A sweep names one of them by its index.
const Shards = 256

// Store is the state. It is safe for concurrent use; its zero value is not ready, use [New].
type Store struct {
	shards   [Shards]shard
	accounts *accounts
	packer   *packer
	sinks    []func(record []byte)          // of every record
	copies   func(shard int, record []byte) // of the records of what is decided here; nil: nobody wants them
}

// New returns an empty store.
func New(limits Limits) *Store {
	s := &Store{accounts: newAccounts(limits), packer: sharedPacker()}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.store, sh.number = s, i
		sh.spaces = make(map[Space]*space)
		sh.random = uint64(i) + 1
	}
	return s
}

// shard is a part of the keys with all that belongs to them.
type shard struct {
	store  *Store
	number int
	mu     sync.Mutex // guards all that follows
	spaces map[Space]*space
	order  []*space  // the same, in the order in which they came
	due    deadlines // sessions and locks, by when they can be dropped
	stamp  uint64    // the last one issued

	// forgotten is the highest fence of a session grant whose entry was dropped. A locked write to an id
	// without an entry is refused unless its fence is higher: who came after it is no longer known.
	forgotten uint64

	// removed holds, per slot of the key's hash, the stamp of the last removal of a value: the version of missing keys.
	removed [64]uint64

	random uint64 // the state of pick

	buf     []byte // where records are encoded
	step    *step  // where they go during a step on several keys; nil: to the sink
	changed bool   // a record was made since it was last false

	_ [64]byte // shards of neighbouring index share no cache line
}

// space is what one Space has in one shard.
type space struct {
	name     Space
	usage    *usage // of its tenant
	bucket   *bucket
	sessions map[string]*session
	held     map[*session]struct{} // sessions whose hold is not empty, lapsed or not; nil: none
	records  int                   // sessions that have data
	locks    map[string]*lock
	bytes    int64 // what sessions and locks cost
}

// space returns the named space, or nil when nothing is in it.
func (sh *shard) space(c *Command) *space { return sh.spaces[c.Space] }

// makeSpace returns the named space and makes it when it is missing.
func (sh *shard) makeSpace(c *Command) *space {
	sp := sh.spaces[c.Space]
	if sp == nil {
		sp = &space{
			name:     c.Space,
			usage:    sh.store.accounts.of(c.Space.Tenant),
			bucket:   newBucket(),
			sessions: make(map[string]*session),
			locks:    make(map[string]*lock),
		}
		sh.spaces[c.Space] = sp
		sh.order = append(sh.order, sp)
	}
	return sp
}

// tidy drops the space when its last entry has gone, so that names of buckets cannot pile up.
func (sh *shard) tidy(sp *space) {
	if len(sp.bucket.values)+len(sp.sessions)+len(sp.locks) == 0 {
		delete(sh.spaces, sp.name)
		at := slices.Index(sh.order, sp)
		sh.order = slices.Delete(sh.order, at, at+1)
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
	OpStrlen:         (*shard).strlen,
	OpSet:            (*shard).set,
	OpDel:            (*shard).del,
	OpGetDel:         (*shard).getDel,
	OpExpire:         (*shard).expire,
	OpTTL:            (*shard).ttl,
	OpIncr:           (*shard).incr,
	OpIncrFloat:      (*shard).incrFloat,
	OpAppend:         (*shard).append,
	OpVersion:        (*shard).version,
	OpHashSet:        (*shard).hashSet,
	OpHashGet:        (*shard).hashGet,
	OpHashDel:        (*shard).hashDel,
	OpHashAll:        (*shard).hashAll,
	OpHashLen:        (*shard).hashLen,
	OpHashIncr:       (*shard).hashIncr,
}

// Apply runs one command and returns its result. Values are compressed and uncompressed here, while no shard is held.
func (s *Store) Apply(c *Command) Result {
	s.prepare(c)
	r := s.run(c)
	// A command that found no room changed nothing: it may run again when there is some. Others may take
	// what was made free, hence the number of tries.
	for tries := 0; r.Reason == Full && tries < 3 && s.makeRoom(c, r.N); tries++ {
		r = s.run(c)
	}
	if r.Reason == Full && c.Op == OpSessionCommit && c.Release {
		release := *c
		release.Op = OpSessionRelease
		r.Released = s.run(&release).Done
	}
	s.unpack(&r)
	s.unpackBatch(r.Batch, int64(c.Limit))
	return r
}

// prepare compresses the values of a command, and makes room for a batch, which cannot run twice.
func (s *Store) prepare(c *Command) {
	if c.Op == OpSet {
		c.packed = s.packer.pack(c.Value)
	}
	if c.Op != OpBatch || len(c.Batch) == 0 {
		return
	}
	var need int64
	for i := range c.Batch {
		b := &c.Batch[i]
		s.prepare(b)
		need += b.grows()
	}
	c.Key = c.Batch[0].Key
	if a := s.accounts; !a.total.fits(need) || !a.of(c.Space.Tenant).fits(need) {
		s.makeRoom(c, need)
	}
}

// grows returns about how much memory a command of a batch may take.
func (c *Command) grows() int64 {
	switch c.Op {
	case OpSet, OpAppend, OpIncr, OpIncrFloat:
		return valueCost(len(c.Key)) + int64(len(c.Value))
	case OpHashSet, OpHashIncr:
		need := valueCost(len(c.Key)) + hashCost(0)
		for _, p := range c.Pairs {
			need += needOf(len(p), 0)
		}
		return need
	}
	return 0
}

func (s *Store) unpack(r *Result) {
	if r.plain > 0 {
		r.Value = s.packer.unpack(r.Value, r.plain)
	}
}

// unpackBatch uncompresses limit bytes at most, if there is a limit: few bytes could become very many. A result for which
// they do not suffice is refused, whatever its command did.
func (s *Store) unpackBatch(rs []Result, limit int64) {
	total := int64(0)
	for i := range rs {
		total += int64(rs[i].plain)
		if limit > 0 && total > limit && rs[i].plain > 0 {
			rs[i] = Result{Status: Refused, Reason: TooLong, N: total}
			continue
		}
		s.unpack(&rs[i])
	}
}

func (s *Store) run(c *Command) Result {
	if c.Op < opSingleKeys {
		sh := &s.shards[shardOf(c.Key)]
		sh.mu.Lock()
		defer sh.mu.Unlock()
		sh.changed = false
		r := commands[c.Op](sh, c)
		r.Changed = sh.changed
		return r
	}
	switch c.Op {
	case OpBatch:
		return s.batch(c)
	case OpRename:
		return s.rename(c)
	case OpFlush:
		return s.flush(c)
	case OpSweep:
		return s.sweep(c)
	case OpScan:
		return s.scan(c)
	case OpRandomKey:
		return s.randomKey(c)
	case OpListLocks:
		return s.listLocks(c)
	case OpListHeld:
		return s.listHeld(c)
	case OpListSession:
		return s.listSessions(c)
	case OpListSpaces:
		return s.listSpaces(c)
	case OpStats:
		return s.stats(c)
	}
	panic("store: unknown command")
}

// positionShift turns a position into its shard's index.
const positionShift = 63 - 8

// position returns where a key stands in the order of a scan: 63 bits of its hash, whose
// highest eight are the shard.
func position(key []byte) uint64 { return xxhash.Sum64(key) >> 1 }

func shardOf(key []byte) uint64 { return position(key) >> positionShift }

// each calls visit for each shard that the command is about in ascending order, under its mutex, until visit returns false.
func (s *Store) each(c *Command, visit func(*shard) bool) {
	for i := range s.shards {
		sh := &s.shards[i]
		if !c.among(i) {
			continue
		}
		sh.mu.Lock()
		more := visit(sh)
		sh.mu.Unlock()
		if !more {
			return
		}
	}
}

// stats counts what a tenant has, or all with the empty name.
func (s *Store) stats(c *Command) Result {
	tenant, u, limit := c.Space.Tenant, &s.accounts.total, s.accounts.limits.Total
	if tenant != "" {
		u = s.accounts.of(tenant)
		limit = tighter(u.limit, limit)
	}
	used := int64(0)
	st := Stats{Bytes: u.bytes.Load(), Limit: limit, Own: tenant != "" && limit == u.limit, Evicted: u.evicted.Load()}
	s.each(c, func(sh *shard) bool {
		for _, sp := range sh.order {
			if !c.of(sp) {
				continue
			}
			st.Values += len(sp.bucket.values)
			st.Sessions += sp.records
			used += sp.bucket.bytes + sp.bytes
			for _, l := range sp.locks {
				if l.prune(c.Now); len(l.holds) > 0 {
					st.Locks++
				}
			}
			for x := range sp.held {
				if x.hold.live(c.Now) {
					st.Locks++
				}
			}
		}
		return true
	})
	if c.Only != nil { // the accounts know of no shards
		st.Bytes = used
	}
	return Result{Stats: st}
}

// tighter returns the smaller of two limits, of which 0 is none.
func tighter(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (s *Store) listSpaces(c *Command) Result {
	bySpace := make(map[Space]*SpaceInfo)
	s.each(c, func(sh *shard) bool {
		for _, sp := range sh.order {
			i := bySpace[sp.name]
			if i == nil {
				i = &SpaceInfo{Space: sp.name}
				bySpace[sp.name] = i
			}
			i.Values += len(sp.bucket.values)
			i.Expiring += len(sp.bucket.due)
			i.Sessions += sp.records
			i.Bytes += sp.bucket.bytes + sp.bytes
		}
		return true
	})
	var r Result
	for _, i := range bySpace {
		r.Spaces = append(r.Spaces, *i)
	}
	slices.SortFunc(r.Spaces, func(a, b SpaceInfo) int {
		return cmp.Or(cmp.Compare(a.Space.Tenant, b.Space.Tenant), cmp.Compare(a.Space.Bucket, b.Space.Bucket))
	})
	return r
}
