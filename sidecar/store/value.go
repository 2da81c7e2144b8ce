package store

import (
	"bytes"
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// bucket holds the values of one space in one shard. A flush replaces it whole.
type bucket struct {
	values map[string]*value
	list   []*value  // the same in no order, to sample from
	due    deadlines // those with an expiry
	bytes  int64     // what they cost
}

func newBucket() *bucket { return &bucket{values: make(map[string]*value)} }

// value is one value of a bucket: a string, or a hash. A string's data is replaced, never changed in place: readers keep
// what they got.
type value struct {
	deadline
	space *space
	key   string
	data  []byte
	hash  map[string][]byte // nil for a string
	stamp uint64            // its version
	cost  int64             // estimated memory, as charged
	plain int               // length of the data before it was compressed; 0: it is not
	place int32             // in bucket.list
	used  uint32            // when it was last looked up, in seconds since 1970
}

// length returns the length of a string.
func (v *value) length() int {
	if v.plain > 0 {
		return v.plain
	}
	return len(v.data)
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
	gone := sh.next(now)
	sh.removed[slot(v.key)] = gone
	sh.note(encodeGone(recValueGone, v.space.name, v.key, gone))
	sh.unlink(v)
}

func (sh *shard) unlink(v *value) {
	b := v.space.bucket
	b.due.schedule(v, 0)
	delete(b.values, v.key)
	last := len(b.list) - 1
	b.list[v.place] = b.list[last]
	b.list[v.place].place = v.place
	b.list[last] = nil
	b.list = b.list[:last]
	sh.chargeValue(v, 0)
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
	if v == nil {
		return nil
	}
	if v.over(c.Now) {
		v.drop(sh)
		return nil
	}
	v.used = uint32(c.Now / 1000)
	return v
}

// text returns the string of the command's key, or nil; wrong says that there is something else.
func (sh *shard) text(c *Command) (v *value, wrong bool) {
	v = sh.lookup(c)
	return v, v != nil && v.hash != nil
}

// put stores a string, which the value owns from here on. When memory does not suffice it changes nothing and returns
// how much more is needed. v is what lookup returned.
func (sh *shard) put(v *value, c *Command, data []byte, plain int) (_ *value, lacking int64) {
	cost := valueCost(len(c.Key)) + int64(cap(data))
	if need := cost - v.charged(); !sh.fits(c, need) {
		return nil, need
	}
	if v == nil {
		v = sh.link(c)
	}
	v.data, v.plain, v.hash = data, plain, nil
	v.stamp = sh.next(c.Now)
	sh.chargeValue(v, cost)
	return v, 0
}

// link makes an empty value for the command's key.
func (sh *shard) link(c *Command) *value {
	sp := sh.makeSpace(c)
	b := sp.bucket
	v := &value{space: sp, key: string(c.Key), place: int32(len(b.list)), used: uint32(c.Now / 1000)}
	b.values[v.key] = v
	b.list = append(b.list, v)
	return v
}

// expireAt sets a value's expiry to what the command asks for: none when it asks for nothing.
func (v *value) expireAt(c *Command) {
	at := c.At
	if at == 0 && c.TTL > 0 {
		at = later(c.Now, c.TTL)
	}
	v.space.bucket.due.schedule(v, at)
}

// found is the result of reading a string.
func found(v *value) Result {
	if v == nil {
		return Result{}
	}
	return Result{Found: true, Value: v.data, plain: v.plain}
}

// meets says whether v fulfils the command's condition.
func (sh *shard) meets(c *Command, v *value) bool {
	switch c.If {
	case IfAbsent:
		return v == nil
	case IfPresent:
		return v != nil
	case IfEqual:
		return v != nil && sh.equals(v, c.Match)
	case IfNotEqual:
		return v != nil && !sh.equals(v, c.Match)
	}
	return true
}

// equals compares a value's plain bytes.
func (sh *shard) equals(v *value, match []byte) bool {
	return v.hash == nil && v.length() == len(match) && bytes.Equal(sh.plain(v), match)
}

// plain returns a string's plain bytes.
func (sh *shard) plain(v *value) []byte {
	if v.plain == 0 {
		return v.data
	}
	return sh.store.packer.unpack(v.data, v.plain)
}

func (sh *shard) get(c *Command) Result {
	v, wrong := sh.text(c)
	if wrong {
		return refused(WrongType)
	}
	return found(v)
}

func (sh *shard) strlen(c *Command) Result {
	v, wrong := sh.text(c)
	switch {
	case wrong:
		return refused(WrongType)
	case v == nil:
		return Result{}
	}
	return Result{Found: true, N: int64(v.length())}
}

func (sh *shard) set(c *Command) Result {
	v := sh.lookup(c)
	isHash := v != nil && v.hash != nil
	if isHash && c.WantOld || isHash && c.If >= IfEqual {
		return refused(WrongType)
	}
	r := Result{Found: v != nil}
	if c.WantOld {
		r = found(v)
	}
	if !sh.meets(c, v) {
		return r
	}
	data, plain := c.packed, len(c.Value)
	if data == nil {
		data, plain = slices.Clone(c.Value), 0
	}
	v, lacking := sh.put(v, c, data, plain)
	if lacking > 0 {
		return sh.full(c, lacking)
	}
	if !c.KeepTTL {
		v.expireAt(c)
	}
	if v.over(c.Now) { // an absolute expiry that has passed
		sh.erase(v, c.Now)
	} else {
		sh.note(v.encode)
	}
	r.Done = true
	return r
}

func (sh *shard) del(c *Command) Result {
	v := sh.lookup(c)
	if v == nil {
		return Result{}
	}
	if c.If >= IfEqual && v.hash != nil {
		return refused(WrongType)
	}
	if !sh.meets(c, v) {
		return Result{Found: true}
	}
	sh.erase(v, c.Now)
	return Result{Found: true, Done: true}
}

func (sh *shard) getDel(c *Command) Result {
	v, wrong := sh.text(c)
	if wrong {
		return refused(WrongType)
	}
	if v != nil {
		sh.erase(v, c.Now)
	}
	return found(v)
}

// expire changes an expiry: to TTL or At, or to none. What has passed removes the value.
func (sh *shard) expire(c *Command) Result {
	v := sh.lookup(c)
	if c.WantOld && v != nil && v.hash != nil {
		return refused(WrongType)
	}
	if v == nil || !sh.meets(c, v) || !c.Expiry.allows(v.at, c) {
		return Result{}
	}
	r := Result{Found: true}
	if c.WantOld {
		r = found(v)
	}
	r.Done = v.at != 0 || c.TTL > 0 || c.At > 0
	v.expireAt(c)
	if v.over(c.Now) {
		sh.erase(v, c.Now)
	} else {
		sh.note(v.encodeMeta)
	}
	return r
}

// allows says whether an expiry at old, 0 for none, may be replaced by the command's.
func (x ExpiryCondition) allows(old int64, c *Command) bool {
	at := c.At
	if at == 0 {
		at = later(c.Now, c.TTL)
	}
	switch x {
	case IfNoExpiry:
		return old == 0
	case IfExpiry:
		return old != 0
	case IfLater: // no expiry is later than any
		return old != 0 && at > old
	case IfSooner:
		return old == 0 || at < old
	case IfSoonerExpiry:
		return old != 0 && at < old
	}
	return true
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
	return Result{Found: true, N: v.left(c.Now), Hash: v.hash != nil}
}

// maxDigits is the length of the longest 64-bit integer.
const maxDigits = 20

// parseInt reads a decimal integer as Redis does: no sign but a minus, no leading zeros, no spaces.
func parseInt(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > maxDigits || b[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || b[0] == '0' && len(b) > 1 || b[0] == '-' && b[1] == '0' {
		return 0, false
	}
	return n, true
}

// add returns n + delta, and false when that does not fit.
func add(n, delta int64) (int64, bool) {
	if delta > 0 && n > math.MaxInt64-delta || delta < 0 && n < math.MinInt64-delta {
		return 0, false
	}
	return n + delta, true
}

func (sh *shard) incr(c *Command) Result {
	v, wrong := sh.text(c)
	if wrong {
		return refused(WrongType)
	}
	if v == nil && c.If == IfPresent {
		return Result{}
	}
	var n int64
	var ok bool
	if v != nil {
		if n, ok = parseInt(v.data); !ok {
			return refused(NotInteger)
		}
	}
	if n, ok = add(n, c.Delta); !ok {
		return refused(Overflow)
	}
	if c.Floor != nil {
		n = max(n, *c.Floor)
	}
	return sh.replaceNumber(v, c, strconv.AppendInt(nil, n, 10), Result{Found: true, N: n})
}

// replaceNumber stores a new number, which keeps its expiry, and returns r.
func (sh *shard) replaceNumber(v *value, c *Command, digits []byte, r Result) Result {
	isNew := v == nil
	v, lacking := sh.put(v, c, digits, 0)
	if lacking > 0 {
		return sh.full(c, lacking)
	}
	if isNew {
		v.expireAt(c)
	}
	sh.note(v.encode)
	return r
}

func (sh *shard) incrFloat(c *Command) Result {
	v, wrong := sh.text(c)
	if wrong {
		return refused(WrongType)
	}
	n, ok := parseFloat(c.Value)
	if ok && v != nil {
		var old *big.Float
		if old, ok = parseFloat(sh.plain(v)); ok {
			n.Add(n, old)
		}
	}
	switch {
	case !ok:
		return refused(NotFloat)
	case n.MantExp(nil) > maxExponent:
		return refused(NotFinite)
	}
	digits := formatFloat(n)
	return sh.replaceNumber(v, c, digits, Result{Found: true, Value: digits})
}

// The extended precision in which Redis adds on x86: bits of mantissa, and the highest exponent. The same sums come out.
const (
	floatBits   = 64
	maxExponent = 1 << 14
	maxFloat    = 5 << 10 // bytes of a number as text
)

// parseFloat reads a decimal number, with an exponent or without.
func parseFloat(b []byte) (*big.Float, bool) {
	if len(b) == 0 || len(b) > maxFloat || len(bytes.Trim(b, "+-.0123456789eE")) > 0 {
		return nil, false
	}
	n, _, err := big.ParseFloat(string(b), 10, floatBits, big.ToNearestEven)
	return n, err == nil && n.MantExp(nil) <= maxExponent && n.MantExp(nil) > -maxExponent
}

// formatFloat writes a number with at most 17 decimals and without an exponent.
func formatFloat(n *big.Float) []byte {
	digits := n.Append(nil, 'f', 17)
	digits = bytes.TrimSuffix(bytes.TrimRight(digits, "0"), []byte{'.'})
	if string(digits) == "-0" {
		return []byte{'0'}
	}
	return slices.Clip(digits)
}

func (sh *shard) append(c *Command) Result {
	v, wrong := sh.text(c)
	if wrong {
		return refused(WrongType)
	}
	n := len(c.Value)
	if v != nil {
		n += v.length()
	}
	if n > c.Limit {
		return Result{Status: Refused, Reason: TooLong, N: int64(n)}
	}
	var old []byte
	if v != nil {
		old = sh.plain(v)
	}
	// It stays plain: what is appended to will be appended to.
	data := slices.Concat(old, c.Value)
	v, lacking := sh.put(v, c, data, 0)
	if lacking > 0 {
		return sh.full(c, lacking)
	}
	sh.note(v.encode)
	return Result{N: int64(len(v.data))}
}

func (sh *shard) version(c *Command) Result {
	v, wrong := sh.text(c)
	if wrong {
		return refused(WrongType)
	}
	if v == nil {
		return Result{Version: max(1, sh.removed[slot(string(c.Key))]), N: -1}
	}
	r := found(v)
	r.Version, r.N = v.stamp, v.left(c.Now)
	return r
}

// flush drops every value of a space by replacing its buckets, whatever their number. It holds all
// shards that it is about at once, so that nobody sees a half-flushed bucket.
func (s *Store) flush(c *Command) Result {
	about := c.Shards()
	for i := range about.All() {
		s.shards[i].mu.Lock()
		defer s.shards[i].mu.Unlock()
	}
	s.flushHeld(c)
	return Result{Done: true, Changed: true}
}

// flushHeld flushes while every shard that it is about is held. All shards note the one stamp, which is above any of theirs.
func (s *Store) flushHeld(c *Command) {
	about := c.Shards()
	var gone uint64
	for i := range about.All() {
		gone = max(gone, s.shards[i].next(c.Now))
	}
	for i := range about.All() {
		s.shards[i].flush(c, gone)
	}
	s.noteFlush(c, about, gone)
}

// flush drops what the space has in this shard. gone is the flush's stamp.
func (sh *shard) flush(c *Command, gone uint64) {
	sh.stamp = max(sh.stamp, gone)
	if sp := sh.space(c); sp != nil {
		sh.empty(sp, gone)
	}
}

// empty drops every value that the space has in this shard.
func (sh *shard) empty(sp *space, gone uint64) {
	if len(sp.bucket.values) == 0 {
		return
	}
	sh.chargeValues(sp, -sp.bucket.bytes)
	sp.bucket = newBucket()
	for k := range sh.removed {
		sh.removed[k] = gone
	}
	sh.tidy(sp)
}
