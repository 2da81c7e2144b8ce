package store

import (
	"encoding/binary"
	"errors"
	"math"
)

// Commands and results travel as bytes: every field in the order below, numbers as varints, byte strings with their length
// before them, as in records. There is no version here: the protocol between hosts has one, and both ends speak the same.

var (
	// ErrCommand is returned for bytes that are not a command of this version.
	ErrCommand = errors.New("not a command")
	// ErrResult is returned for bytes that are not a result of this version.
	ErrResult = errors.New("not a result")
)

// The least bytes that a command and a result take: a count is believed only as far as the bytes behind it can reach.
const (
	leastCommand = 24
	leastResult  = 22
)

// AppendCommand appends c to b. A command of a batch must not be a batch.
func AppendCommand(b []byte, c *Command) []byte {
	b = binary.AppendVarint(append(b, byte(c.Op)), c.Now)
	b = appendSpace(b, c.Space)
	b = appendBytes(appendBytes(b, c.Key), c.Token)
	b = binary.AppendUvarint(b, c.Fence)
	b = binary.AppendVarint(b, c.Lease)
	b = binary.AppendVarint(b, c.TTL)
	b = binary.AppendVarint(b, c.At)
	if b = appendBool(b, c.Who != nil); c.Who != nil {
		b = appendWho(b, c.Who)
	}
	b = appendBytes(appendBytes(b, c.Value), c.Match)
	b = binary.AppendVarint(b, c.Delta)
	if b = appendBool(b, c.Floor != nil); c.Floor != nil {
		b = binary.AppendVarint(b, *c.Floor)
	}
	b = append(b, byte(c.If), byte(c.Expiry))
	b = binary.AppendUvarint(b, uint64(len(c.Pairs)))
	for _, p := range c.Pairs {
		b = appendBytes(b, p)
	}
	b = appendBytes(b, c.NewKey)
	b = appendFlags(b, c.Touch, c.Release, c.KeepTTL, c.Shared, c.Bound, c.WantOld, c.Queued, c.OneStep)
	b = binary.AppendUvarint(b, c.Cursor)
	b = binary.AppendUvarint(b, uint64(max(0, c.Limit)))
	if b = appendBool(b, c.Only != nil); c.Only != nil {
		b = c.Only.append(b)
	}
	b = binary.AppendUvarint(b, uint64(len(c.Batch)))
	for i := range c.Batch {
		b = AppendCommand(b, &c.Batch[i])
	}
	return b
}

// DecodeCommand returns the command that b is, whole. The command shares b's bytes. It returns an error that wraps ErrCommand when b is
// none, or one that no store can run.
func DecodeCommand(b []byte) (*Command, error) {
	r := &reader{b: b, is: ErrCommand}
	c := new(Command)
	r.command(c, false)
	if r.err == nil && len(r.b) > 0 {
		r.fail("something follows it")
	}
	if r.err != nil {
		return nil, r.err
	}
	return c, nil
}

func (r *reader) command(c *Command, inBatch bool) {
	c.Op, c.Now = Op(r.byte()), r.int()
	c.Space = r.space()
	c.Key, c.Token = r.bytes(), r.bytes()
	c.Fence, c.Lease, c.TTL, c.At = r.uint(), r.int(), r.int(), r.int()
	if r.bool() {
		c.Who = new(r.who())
	}
	c.Value, c.Match = r.bytes(), r.bytes()
	c.Delta = r.int()
	if r.bool() {
		c.Floor = new(r.int())
	}
	c.If, c.Expiry = Condition(r.byte()), ExpiryCondition(r.byte())
	if n := r.count(1); n > 0 {
		c.Pairs = make([][]byte, n)
		for i := range c.Pairs {
			c.Pairs[i] = r.bytes()
		}
	}
	c.NewKey = r.bytes()
	r.flags(&c.Touch, &c.Release, &c.KeepTTL, &c.Shared, &c.Bound, &c.WantOld, &c.Queued, &c.OneStep)
	c.Cursor, c.Limit = r.uint(), r.size()
	if r.bool() {
		c.Only = new(r.shardSet())
	}
	n := r.count(leastCommand)
	if inBatch && n > 0 {
		r.fail("a batch is within a batch")
		return
	}
	if n > 0 {
		c.Batch = make([]Command, n)
		for i := range c.Batch {
			r.command(&c.Batch[i], true)
		}
	}
	if r.err == nil && !c.valid(inBatch) {
		r.fail("no store can run it")
	}
}

// valid says whether Apply can run the command.
func (c *Command) valid(inBatch bool) bool {
	switch {
	case c.Op > OpSweep || c.Op == opSingleKeys || c.If > IfNotEqual || c.Expiry > IfSoonerExpiry:
		return false
	case inBatch && c.Op >= opSingleKeys && c.Op != OpFlush:
		return false
	case c.Op != OpBatch && len(c.Batch) > 0:
		return false
	case c.Op == OpHashSet:
		return len(c.Pairs)%2 == 0
	case c.Op == OpHashIncr:
		return len(c.Pairs) == 1
	}
	return true
}

// AppendResult appends r to b.
func AppendResult(b []byte, r *Result) []byte {
	b = append(b, byte(r.Status), byte(r.Reason))
	b = appendFlags(b, r.Done, r.Found, r.Locked, r.Released, r.Changed, r.Hash)
	b = appendBytes(b, r.Value)
	b = binary.AppendVarint(b, r.N)
	b = binary.AppendUvarint(b, r.Fence)
	b = binary.AppendUvarint(b, r.Version)
	b = binary.AppendUvarint(b, r.Cursor)
	if b = appendBool(b, r.Holder != nil); r.Holder != nil {
		b = appendHold(b, r.Holder)
	}
	b = appendList(b, r.Keys, func(b []byte, key *string) []byte { return appendBytes(b, *key) })
	b = appendList(b, r.Values, appendOptional)
	b = appendList(b, r.Spaces, appendSpaceInfo)
	b = appendList(b, r.Locks, appendLockInfo)
	b = appendList(b, r.Sessions, appendSessionInfo)
	b = appendStats(b, &r.Stats)
	return appendList(b, r.Batch, AppendResult)
}

// DecodeResult returns the result that b is, whole. The result shares b's bytes. It returns an error that wraps ErrResult when b is none.
func DecodeResult(b []byte) (Result, error) {
	r := &reader{b: b, is: ErrResult}
	var res Result
	r.result(&res, false)
	if r.err == nil && len(r.b) > 0 {
		r.fail("something follows it")
	}
	if r.err != nil {
		return Result{}, r.err
	}
	return res, nil
}

func (r *reader) result(res *Result, inBatch bool) {
	res.Status, res.Reason = Status(r.byte()), Reason(r.byte())
	r.flags(&res.Done, &res.Found, &res.Locked, &res.Released, &res.Changed, &res.Hash)
	res.Value = r.bytes()
	res.N, res.Fence, res.Version, res.Cursor = r.int(), r.uint(), r.uint(), r.uint()
	if r.bool() {
		res.Holder = new(Hold)
		r.holdInfo(res.Holder)
	}
	res.Keys = readList(r, 1, func(key *string) { *key = string(r.bytes()) })
	res.Values = readList(r, 1, r.optional)
	res.Spaces = readList(r, 6, r.spaceInfo)
	res.Locks = readList(r, 5, r.lockInfo)
	res.Sessions = readList(r, 6, r.sessionInfo)
	r.stats(&res.Stats)
	res.Batch = readList(r, leastResult, func(each *Result) {
		if inBatch {
			r.fail("a batch is within a batch")
			return
		}
		r.result(each, true)
	})
	if r.err == nil && (res.Status > Refused || res.Reason > lastReason) {
		r.fail("how it ended is unknown; a newer version may have written it")
	}
}

func appendSpace(b []byte, s Space) []byte { return appendBytes(appendBytes(b, s.Tenant), s.Bucket) }

func (r *reader) space() Space { return Space{Tenant: string(r.bytes()), Bucket: string(r.bytes())} }

func appendWho(b []byte, w *Who) []byte {
	return appendBytes(appendBytes(binary.AppendVarint(b, int64(w.PID)), w.SAPI), w.Script)
}

func (r *reader) who() Who {
	return Who{PID: int(r.int()), SAPI: string(r.bytes()), Script: string(r.bytes())}
}

func appendHold(b []byte, h *Hold) []byte {
	b = binary.AppendUvarint(appendBytes(b, h.Token), h.Fence)
	b = binary.AppendVarint(binary.AppendVarint(b, h.Since), h.Until)
	return appendWho(appendBool(b, h.Bound), &h.Who)
}

func (r *reader) holdInfo(h *Hold) {
	h.Token, h.Fence, h.Since, h.Until, h.Bound = string(r.bytes()), r.uint(), r.int(), r.int(), r.bool()
	h.Who = r.who()
}

// appendOptional appends bytes that may be nil, which is not the same as empty.
func appendOptional(b []byte, v *[]byte) []byte {
	if b = appendBool(b, *v != nil); *v != nil {
		b = appendBytes(b, *v)
	}
	return b
}

func (r *reader) optional(v *[]byte) {
	if r.bool() {
		*v = r.bytes()
	}
}

func appendSpaceInfo(b []byte, i *SpaceInfo) []byte {
	b = appendSpace(b, i.Space)
	for _, n := range []int64{int64(i.Values), int64(i.Sessions), int64(i.Expiring), i.Bytes} {
		b = binary.AppendVarint(b, n)
	}
	return b
}

func (r *reader) spaceInfo(i *SpaceInfo) {
	i.Space = r.space()
	i.Values, i.Sessions, i.Expiring, i.Bytes = int(r.int()), int(r.int()), int(r.int()), r.int()
}

func appendLockInfo(b []byte, i *LockInfo) []byte {
	b = appendBytes(appendSpace(b, i.Space), i.Name)
	return appendList(appendFlags(b, i.Session, i.Shared), i.Holds, appendHold)
}

func (r *reader) lockInfo(i *LockInfo) {
	i.Space, i.Name = r.space(), string(r.bytes())
	r.flags(&i.Session, &i.Shared)
	i.Holds = readList(r, 8, r.holdInfo)
}

func appendSessionInfo(b []byte, i *SessionInfo) []byte {
	b = appendBytes(appendSpace(b, i.Space), i.ID)
	b = binary.AppendVarint(binary.AppendVarint(b, int64(i.Size)), i.ExpiresAt)
	return appendBool(b, i.Locked)
}

func (r *reader) sessionInfo(i *SessionInfo) {
	i.Space, i.ID = r.space(), string(r.bytes())
	i.Size, i.ExpiresAt, i.Locked = int(r.int()), r.int(), r.bool()
}

func appendStats(b []byte, s *Stats) []byte {
	for _, n := range []int64{int64(s.Values), int64(s.Sessions), int64(s.Locks), s.Bytes, s.Limit, s.Evicted} {
		b = binary.AppendVarint(b, n)
	}
	return appendBool(b, s.Own)
}

func (r *reader) stats(s *Stats) {
	s.Values, s.Sessions, s.Locks = int(r.int()), int(r.int()), int(r.int())
	s.Bytes, s.Limit, s.Evicted, s.Own = r.int(), r.int(), r.int(), r.bool()
}

func appendList[T any](b []byte, list []T, one func([]byte, *T) []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for i := range list {
		b = one(b, &list[i])
	}
	return b
}

// readList reads a list whose entries take least bytes each, or more. An empty one is nil.
func readList[T any](r *reader, least int, one func(*T)) []T {
	n := r.count(least)
	if n == 0 {
		return nil
	}
	list := make([]T, n)
	for i := range list {
		if r.err != nil {
			return nil
		}
		one(&list[i])
	}
	return list
}

func appendBool(b []byte, is bool) []byte { return appendFlags(b, is) }

func (r *reader) bool() (is bool) {
	r.flags(&is)
	return is
}

// appendFlags appends at most eight facts in one byte.
func appendFlags(b []byte, facts ...bool) []byte {
	bits := byte(0)
	for i, is := range facts {
		if is {
			bits |= 1 << i
		}
	}
	return append(b, bits)
}

func (r *reader) flags(facts ...*bool) {
	bits := r.byte()
	for i, is := range facts {
		*is = bits&(1<<i) != 0
	}
	if bits>>len(facts) != 0 {
		r.fail("a flag is unknown; a newer version may have written it")
	}
}

// size reads a number that is not negative.
func (r *reader) size() int {
	n := r.uint()
	if n > math.MaxInt {
		r.fail("a number is too large")
		return 0
	}
	return int(n)
}

// count reads how many entries follow that take least bytes each, or more.
func (r *reader) count(least int) int {
	n := r.uint()
	if n > uint64(len(r.b)/least) {
		r.fail("a count is beyond its end")
		return 0
	}
	return int(n)
}
