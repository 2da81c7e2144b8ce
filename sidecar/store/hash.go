package store

import (
	"maps"
	"slices"
	"strconv"
)

// fieldCost is what a field of a hash costs beside its bytes: a slot in a map, two allocations.
const fieldCost = mapSlot + 24 + 16

// fields returns the hash of the command's key, or nil; wrong says that there is something else.
func (sh *shard) fields(c *Command) (v *value, wrong bool) {
	v = sh.lookup(c)
	return v, v != nil && v.hash == nil
}

// makeHash returns v, or a new hash for the command's key. need is what the caller will add to it.
func (sh *shard) makeHash(v *value, c *Command, need int64) (*value, bool) {
	if v == nil {
		need += valueCost(len(c.Key))
	}
	if !sh.fits(c, need) {
		return nil, false
	}
	if v == nil {
		v = sh.link(c)
		v.hash = make(map[string][]byte)
		sh.chargeValue(v, valueCost(len(v.key)))
	}
	v.stamp = sh.next(c.Now)
	return v, true
}

func costOf(field string, data []byte) int64 { return fieldCost + int64(len(field)+cap(data)) }

// hashSet sets the fields in Pairs: name, value, name, value. Its result's N counts the new ones.
func (sh *shard) hashSet(c *Command) Result {
	v, wrong := sh.fields(c)
	if wrong {
		return refused(WrongType)
	}
	need := int64(0)
	for i := 0; i < len(c.Pairs); i += 2 {
		need += fieldCost + int64(len(c.Pairs[i])+len(c.Pairs[i+1]))
	}
	isNew := v == nil
	v, ok := sh.makeHash(v, c, need)
	if !ok {
		return sh.full(c, need)
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
	old, had := v.hash[field]
	cost := v.cost + costOf(field, data)
	if had {
		cost -= costOf(field, old)
	}
	v.hash[field] = data
	sh.chargeValue(v, cost)
	return !had
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
		if old, had := v.hash[string(field)]; had {
			delete(v.hash, string(field))
			sh.chargeValue(v, v.cost-costOf(string(field), old))
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
	ok := true
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
	need := fieldCost + int64(len(field)+maxDigits)
	isNew := v == nil
	if v, ok = sh.makeHash(v, c, need); !ok {
		return sh.full(c, need)
	}
	digits := strconv.AppendInt(nil, n, 10)
	sh.setField(v, field, digits)
	sh.noteFields(v, isNew, [][]byte{c.Pairs[0], digits})
	return Result{Found: true, Done: true, N: n}
}
