package store

import (
	"bytes"
	"math"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// bucket holds the values of one space in one shard. A flush replaces it whole.
type bucket struct {
	values map[string]*value
	due    deadlines // those with an expiry
}

func newBucket() bucket { return bucket{values: make(map[string]*value)} }

// value is one value of a bucket. Its data is replaced, never changed in place: readers keep what they got.
type value struct {
	deadline
	space *space
	key   string
	data  []byte
	stamp uint64 // its version
}

// drop removes a value whose time is up. The removal's stamp follows from the value alone, so it does not
// depend on when the removal is noticed: just below the stamps of the moment of expiry.
func (v *value) drop(sh *shard) {
	gone := &sh.removed[slot(v.key)]
	*gone = max(*gone, v.stamp+1, uint64(v.at)<<stampBits-1)
	sh.unlink(v)
}

// erase removes a value by command.
func (sh *shard) erase(v *value, now int64) {
	sh.removed[slot(v.key)] = sh.next(now)
	sh.unlink(v)
}

func (sh *shard) unlink(v *value) {
	v.space.bucket.due.schedule(v, 0)
	delete(v.space.bucket.values, v.key)
	sh.tidy(v.space)
}

// slot returns which of the shard's removal stamps belongs to key.
func slot(key string) uint64 { return xxhash.Sum64String(key) % uint64(len(shard{}.removed)) }

// lookup returns the value of the command's key, or nil when it is missing or expired.
func (sh *shard) lookup(c *Command) *value {
	sp := sh.space(c)
	if sp == nil {
		return nil
	}
	v := sp.bucket.values[string(c.Key)]
	if v != nil && v.over(c.Now) {
		v.drop(sh)
		return nil
	}
	return v
}

// put stores data, which the value owns from here on. v is what lookup returned.
func (sh *shard) put(v *value, c *Command, data []byte) *value {
	if v == nil {
		sp := sh.makeSpace(c)
		v = &value{space: sp, key: string(c.Key)}
		sp.bucket.values[v.key] = v
	}
	v.data = data
	v.stamp = sh.next(c.Now)
	return v
}

// expireIn sets a value's expiry; a ttl of 0 means none.
func (v *value) expireIn(now, ttl int64) {
	due := &v.space.bucket.due
	if ttl > 0 {
		due.schedule(v, later(now, ttl))
	} else {
		due.schedule(v, 0)
	}
}

// found is the result of reading v.
func found(v *value) Result {
	if v == nil {
		return Result{}
	}
	return Result{Found: true, Value: v.data}
}

// meets says whether v fulfils the command's condition.
func (c *Command) meets(v *value) bool {
	switch c.If {
	case IfAbsent:
		return v == nil
	case IfPresent:
		return v != nil
	case IfEqual:
		return v != nil && bytes.Equal(v.data, c.Match)
	}
	return true
}

func (sh *shard) get(c *Command) Result { return found(sh.lookup(c)) }

func (sh *shard) set(c *Command) Result {
	v := sh.lookup(c)
	r := found(v)
	if !c.meets(v) {
		return r
	}
	v = sh.put(v, c, slices.Clone(c.Value))
	if !c.KeepTTL {
		v.expireIn(c.Now, c.TTL)
	}
	r.Done = true
	return r
}

func (sh *shard) del(c *Command) Result {
	v := sh.lookup(c)
	if v == nil || !c.meets(v) {
		return Result{}
	}
	sh.erase(v, c.Now)
	return Result{Done: true}
}

func (sh *shard) getDel(c *Command) Result {
	v := sh.lookup(c)
	if v != nil {
		sh.erase(v, c.Now)
	}
	return found(v)
}

func (sh *shard) expire(c *Command) Result {
	v := sh.lookup(c)
	if v == nil || !c.meets(v) {
		return Result{}
	}
	had := v.at != 0
	v.expireIn(c.Now, c.TTL)
	return Result{Done: c.TTL > 0 || had}
}

// left returns the milliseconds to v's expiry, or -1.
func (v *value) left(now int64) int64 {
	if v.at == 0 {
		return -1
	}
	return v.at - now
}

func (sh *shard) ttl(c *Command) Result {
	v := sh.lookup(c)
	if v == nil {
		return Result{}
	}
	return Result{Found: true, N: v.left(c.Now)}
}

func (sh *shard) incr(c *Command) Result {
	v := sh.lookup(c)
	if v == nil && c.If == IfPresent {
		return Result{}
	}
	var n int64
	if v != nil {
		var err error
		if n, err = strconv.ParseInt(string(v.data), 10, 64); err != nil {
			return refused(NotInteger)
		}
	}
	if c.Delta > 0 && n > math.MaxInt64-c.Delta || c.Delta < 0 && n < math.MinInt64-c.Delta {
		return refused(Overflow)
	}
	n += c.Delta
	if c.Floor != nil {
		n = max(n, *c.Floor)
	}
	isNew := v == nil
	v = sh.put(v, c, strconv.AppendInt(nil, n, 10))
	if isNew {
		v.expireIn(c.Now, c.TTL)
	}
	return Result{Found: true, N: n}
}

func (sh *shard) append(c *Command) Result {
	v := sh.lookup(c)
	var old []byte
	if v != nil {
		old = v.data
	}
	if n := len(old) + len(c.Value); n > c.Limit {
		return Result{Status: Refused, Reason: TooLong, N: int64(n)}
	}
	v = sh.put(v, c, slices.Concat(old, c.Value))
	return Result{N: int64(len(v.data))}
}

func (sh *shard) version(c *Command) Result {
	v := sh.lookup(c)
	if v == nil {
		return Result{Version: max(1, sh.removed[slot(string(c.Key))]), N: -1}
	}
	r := found(v)
	r.Version, r.N = v.stamp, v.left(c.Now)
	return r
}

// flush drops every value of a space by replacing its buckets, whatever their number. It holds all
// shards at once, so that nobody sees a half-flushed bucket.
func (s *Store) flush(c *Command) Result {
	for i := range s.shards {
		s.shards[i].mu.Lock()
		defer s.shards[i].mu.Unlock()
	}
	for i := range s.shards {
		sh := &s.shards[i]
		if sp := sh.space(c); sp != nil && len(sp.bucket.values) > 0 {
			sp.bucket = newBucket()
			gone := sh.next(c.Now)
			for k := range sh.removed {
				sh.removed[k] = gone
			}
			sh.tidy(sp)
		}
	}
	return Result{Done: true}
}
