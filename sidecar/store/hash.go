package store

import (
	"maps"
	"math/bits"
	"slices"
	"strconv"
)

// What a hash costs beside its fields' bytes: a map, which begins with a group of eight slots. A larger one has a table of
// a power of two, filled to 7/8 at most. The figures are fitted to what Go 1.26 takes.
const (
	hashBase  = 48
	groupCost = 8*(16+24) + 8
	tableBase = 150
	tableSlot = 43
)

// hashCost returns what the map of so many fields costs.
func hashCost(fields int) int64 {
	if fields <= 8 {
		return hashBase + groupCost
	}
	slots := 1 << bits.Len(uint(fields*8/7))
	return hashBase + tableBase + int64(slots)*tableSlot
}

// costOf returns what a field's bytes cost.
func costOf(field string, data []byte) int64 { return small(len(field)) + small(cap(data)) }

// small is the allocator's grain for what has no pointers: pieces of less than 16 bytes share a block.
func small(n int) int64 {
	if n < 16 {
		return int64(n+7) &^ 7
	}
	return roundUp(n)
}

// needOf returns what a new field needs at most: the allocator may give an eighth more than is asked for.
func needOf(field, data int) int64 {
	return 2*tableSlot + roundUp(field) + roundUp(data+data/8)
}

// fields returns the hash of the command's key, or nil; wrong says that there is something else.
func (sh *shard) fields(c *Command) (v *value, wrong bool) {
	v = sh.lookup(c)
	return v, v != nil && v.hash == nil
}

// makeHash returns v, or a new hash for the command's key. need is what the caller will add to it. When memory does not suffice it changes
// nothing and returns how much is needed.
func (sh *shard) makeHash(v *value, c *Command, need int64) (_ *value, lacking int64) {
	if v == nil {
		need += valueCost(len(c.Key)) + hashCost(0)
	}
	if !sh.fits(c, need) {
		return nil, need
	}
	if v == nil {
		v = sh.link(c)
		v.hash = make(map[string][]byte)
		sh.chargeValue(v, valueCost(len(v.key))+hashCost(0))
	}
	v.stamp = sh.next(c.Now)
	return v, 0
}

// hashSet sets the fields in Pairs: name, value, name, value. Its result's N counts the new ones.
func (sh *shard) hashSet(c *Command) Result {
	v, wrong := sh.fields(c)
	if wrong {
		return refused(WrongType)
	}
	need := int64(0)
	for i := 0; i < len(c.Pairs); i += 2 {
		need += needOf(len(c.Pairs[i]), len(c.Pairs[i+1]))
	}
	isNew := v == nil
	v, lacking := sh.makeHash(v, c, need)
	if lacking > 0 {
		return sh.full(c, lacking)
	}
	r := Result{Found: true, Done: true}
	for i := 0; i < len(c.Pairs); i += 2 {
		if sh.setField(v, string(c.Pairs[i]), slices.Clone(c.Pairs[i+1])) {
			r.N++
		}
	}
	sh.noteFields(v, isNew, c.Pairs)
	return r
}

// noteFields records that fields were set.
func (sh *shard) noteFields(v *value, isNew bool, pairs [][]byte) {
	if isNew {
		sh.note(v.encode)
		return
	}
	sh.note(func(b []byte) []byte { return v.encodeFields(recFields, b, pairs) })
}

// setField sets one field and says whether it is new.
func (sh *shard) setField(v *value, field string, data []byte) bool {
	cost := v.cost + costOf(field, data) - hashCost(len(v.hash))
	old, had := v.hash[field]
	if had {
		cost -= costOf(field, old)
	}
	v.hash[field] = data
	sh.chargeValue(v, cost+hashCost(len(v.hash)))
	return !had
}

// removeField removes one field and says whether it was there.
func (sh *shard) removeField(v *value, field string) bool {
	old, had := v.hash[field]
	if had {
		cost := v.cost - costOf(field, old) - hashCost(len(v.hash))
		delete(v.hash, field)
		sh.chargeValue(v, cost+hashCost(len(v.hash)))
	}
	return had
}

// hashGet returns the values of the fields in Pairs, nil for those that are missing.
func (sh *shard) hashGet(c *Command) Result {
	v, wrong := sh.fields(c)
	if wrong {
		return refused(WrongType)
	}
	r := Result{Found: v != nil, Values: make([][]byte, len(c.Pairs))}
	if v != nil {
		for i, field := range c.Pairs {
			r.Values[i] = v.hash[string(field)]
		}
	}
	return r
}

// hashDel removes the fields in Pairs; a hash without fields is gone. Its result's N counts them.
func (sh *shard) hashDel(c *Command) Result {
	v, wrong := sh.fields(c)
	if wrong {
		return refused(WrongType)
	}
	var r Result
	if v == nil {
		return r
	}
	for _, field := range c.Pairs {
		if sh.removeField(v, string(field)) {
			r.N++
		}
	}
	if r.N > 0 {
		r.Done = true
		v.stamp = sh.next(c.Now)
	}
	switch {
	case len(v.hash) == 0:
		sh.erase(v, c.Now)
	case r.Done:
		sh.note(func(b []byte) []byte { return v.encodeFields(recNoFields, b, c.Pairs) })
	}
	return r
}

// hashAll returns names and values of all fields, in order of their names.
func (sh *shard) hashAll(c *Command) Result {
	v, wrong := sh.fields(c)
	if wrong {
		return refused(WrongType)
	}
	var r Result
	if v == nil {
		return r
	}
	r.Found, r.N = true, int64(len(v.hash))
	for _, field := range slices.Sorted(maps.Keys(v.hash)) {
		r.Keys = append(r.Keys, field)
		r.Values = append(r.Values, v.hash[field])
	}
	return r
}

func (sh *shard) hashLen(c *Command) Result {
	v, wrong := sh.fields(c)
	switch {
	case wrong:
		return refused(WrongType)
	case v == nil:
		return Result{}
	}
	return Result{Found: true, N: int64(len(v.hash))}
}

// hashIncr adds Delta to the field Pairs[0].
func (sh *shard) hashIncr(c *Command) Result {
	v, wrong := sh.fields(c)
	if wrong {
		return refused(WrongType)
	}
	field := string(c.Pairs[0])
	var n int64
	var ok bool
	if v != nil {
		if old, had := v.hash[field]; had {
			if n, ok = parseInt(old); !ok {
				return refused(NotInteger)
			}
		}
	}
	if n, ok = add(n, c.Delta); !ok {
		return refused(Overflow)
	}
	isNew := v == nil
	v, lacking := sh.makeHash(v, c, needOf(len(field), maxDigits))
	if lacking > 0 {
		return sh.full(c, lacking)
	}
	digits := strconv.AppendInt(nil, n, 10)
	sh.setField(v, field, digits)
	sh.noteFields(v, isNew, [][]byte{c.Pairs[0], digits})
	return Result{Found: true, Done: true, N: n}
}
