package store

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// What an entry costs beside the bytes it holds, estimated: its struct, its slot in a map (Go's maps keep
// groups of eight slots between 7/16 and 7/8 full), and its places in the heap of deadlines and in the list.
const (
	mapSlot   = 38
	heapSlot  = 20
	listSlot  = 10
	heldSlot  = 20
	valueBase = int64(unsafe.Sizeof(value{})) + mapSlot + heapSlot + listSlot
	sessBase  = int64(unsafe.Sizeof(session{})) + mapSlot + heapSlot
	lockBase  = int64(unsafe.Sizeof(lock{})) + mapSlot + heapSlot
)

// roundUp is the allocator's grain for small sizes.
func roundUp(n int) int64 { return int64(n+15) &^ 15 }

func valueCost(key int) int64 { return valueBase + roundUp(key) }

// Eviction says which values may go when memory is full.
type Eviction uint8

const (
	EvictLRU         Eviction = iota // those least recently used, by sample
	EvictVolatileTTL                 // those that expire soonest; never those without expiry
	EvictNone
)

// Limits bounds the memory of a store. 0 means no limit.
type Limits struct {
	Total    int64            // bytes, of all tenants
	Tenant   int64            // bytes, of each tenant that has no limit of its own
	Tenants  map[string]int64 // bytes, of those that have; never changed
	Eviction Eviction
}

// of returns the limit of a tenant.
func (l Limits) of(tenant string) int64 {
	if own, ok := l.Tenants[tenant]; ok {
		return own
	}
	return l.Tenant
}

// none says whether nobody's memory is bounded.
func (l Limits) none() bool { return l.Total == 0 && l.Tenant == 0 && len(l.Tenants) == 0 }

// usage is how much of its limit somebody uses.
type usage struct {
	bytes   atomic.Int64
	values  atomic.Int64 // bytes of them that are values', which can be evicted
	evicted atomic.Int64 // values, since the start
	limit   int64
}

// couldFit says whether need fits when every value is evicted.
func (u *usage) couldFit(need int64) bool {
	return u.limit == 0 || u.bytes.Load()-u.values.Load()+need <= u.limit
}

func (u *usage) fits(need int64) bool { return u.limit == 0 || u.bytes.Load()+need <= u.limit }

// accounts keeps the usage of all and of each tenant.
type accounts struct {
	limits Limits
	total  usage
	mu     sync.Mutex
	tenant map[string]*usage // guarded by mu
}

func newAccounts(l Limits) *accounts {
	return &accounts{limits: l, total: usage{limit: l.Total}, tenant: make(map[string]*usage)}
}

func (a *accounts) of(tenant string) *usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.tenant[tenant]
	if u == nil {
		u = &usage{limit: a.limits.of(tenant)}
		a.tenant[tenant] = u
	}
	return u
}

// charge adds to what a space uses.
func (sh *shard) charge(sp *space, delta int64) {
	sp.usage.bytes.Add(delta)
	sh.store.accounts.total.bytes.Add(delta)
}

// chargeValues adds to what the values of a space use.
func (sh *shard) chargeValues(sp *space, delta int64) {
	sh.charge(sp, delta)
	sp.usage.values.Add(delta)
	sh.store.accounts.total.values.Add(delta)
	sp.bucket.bytes += delta
}

// charged returns what v costs now; v may be nil.
func (v *value) charged() int64 {
	if v == nil {
		return 0
	}
	return v.cost
}

// chargeValue sets what a value costs.
func (sh *shard) chargeValue(v *value, cost int64) {
	sh.chargeValues(v.space, cost-v.cost)
	v.cost = cost
}

// fits says whether the command may use need more bytes. Concurrent commands may overshoot a limit by what they add together.
func (sh *shard) fits(c *Command, need int64) bool {
	a := sh.store.accounts
	if need <= 0 || a.limits.none() {
		return true
	}
	return a.total.fits(need) && sh.usage(c).fits(need)
}

// usage returns the usage of the command's tenant.
func (sh *shard) usage(c *Command) *usage {
	if sp := sh.space(c); sp != nil {
		return sp.usage
	}
	return sh.store.accounts.of(c.Space.Tenant)
}

// full is the answer to a command for which memory does not suffice.
func (sh *shard) full(c *Command, need int64) Result {
	a := sh.store.accounts
	r := refused(Full)
	r.N = need
	if u := sh.usage(c); !u.fits(need) {
		r.Stats.Bytes, r.Stats.Limit, r.Stats.Own = u.bytes.Load(), u.limit, true
	} else {
		r.Stats.Bytes, r.Stats.Limit = a.total.bytes.Load(), a.total.limit
	}
	return r
}

// largest returns the tenant whose values take the most: where all share one limit, whoever fills it makes room, and a
// small cache beside a large one stays. Of equals it is the first by name, so that the same commands evict the same.
func (a *accounts) largest() (tenant string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	most := int64(-1)
	for name, u := range a.tenant {
		if n := u.values.Load(); n > most || n == most && name < tenant {
			most, tenant = n, name
		}
	}
	return tenant
}

// makeRoom evicts values until the command's need fits, and says whether it does: the tenant's own when its own limit is
// reached, else the largest tenant's, and then anybody's. It begins at the shard of the command's key and holds one shard at
// a time. Sessions and locks stay.
func (s *Store) makeRoom(c *Command, need int64) bool {
	a := s.accounts
	if a.limits.Eviction == EvictNone {
		return false
	}
	mine := a.of(c.Space.Tenant)
	if !a.total.couldFit(need) || !mine.couldFit(need) {
		return false // nobody's value goes for a write that is refused all the same
	}
	own := func() bool { return mine.fits(need) }
	all := func() bool { return a.total.fits(need) }
	return s.evictUntil(c, own, func() string { return c.Space.Tenant }) &&
		(s.evictUntil(c, all, a.largest) || s.evictUntil(c, all, func() string { return "" }))
}

// evictUntil evicts values of whoever's turn it is, anybody's if nobody is named, until enough is. It returns false when there are no more.
func (s *Store) evictUntil(c *Command, enough func() bool, whose func() string) bool {
	at := int(position(c.Key) >> positionShift)
	for idle := 0; idle < Shards; at++ {
		if enough() {
			return true
		}
		if s.shards[at%Shards].evict(c.Now, whose()) {
			idle = 0
		} else {
			idle++
		}
	}
	return enough()
}

// evict removes one value of the shard, of the tenant if one is named, and says whether there was one to remove.
func (sh *shard) evict(now int64, tenant string) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var victim *value
	for _, sp := range sh.order {
		if tenant != "" && sp.name.Tenant != tenant {
			continue
		}
		if v := sh.candidate(sp.bucket); v != nil && (victim == nil || sh.before(v, victim)) {
			victim = v
		}
	}
	if victim == nil {
		return false
	}
	victim.space.usage.evicted.Add(1)
	sh.store.accounts.total.evicted.Add(1)
	sh.erase(victim, now)
	return true
}

// samples is how many values of a bucket are looked at to find one that was not used for long, as in Redis.
const samples = 5

// candidate returns the value of the bucket that should go first, or nil.
func (sh *shard) candidate(b *bucket) *value {
	if sh.store.accounts.limits.Eviction == EvictVolatileTTL {
		if len(b.due) == 0 {
			return nil
		}
		return b.due[0].(*value)
	}
	var oldest *value
	for range min(samples, len(b.list)) {
		v := b.list[sh.pick(len(b.list))]
		if oldest == nil || v.used < oldest.used {
			oldest = v
		}
	}
	return oldest
}

// before says whether a should be evicted before b.
func (sh *shard) before(a, b *value) bool {
	if sh.store.accounts.limits.Eviction == EvictVolatileTTL {
		return a.at < b.at
	}
	return a.used < b.used
}

// pick returns a number below n from the shard's own sequence (xorshift, after Marsaglia, 2003), so that the same commands evict the same.
func (sh *shard) pick(n int) int {
	sh.random ^= sh.random << 13
	sh.random ^= sh.random >> 7
	sh.random ^= sh.random << 17
	return int(sh.random % uint64(n))
}
