package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// A record is the image of one entry after a change, or says that it is gone. Records are what makes a store durable:
// replaying the records of a store in the order in which they came, all of them or all since a
// snapshot began, gives its entries again. Replaying some of them twice does no harm as long as their order stays.
//
// A record begins with its kind. Numbers are varints, byte strings have their length before them.

// recordKind is a record's first byte.
type recordKind byte

const (
	recShard       recordKind = iota + 1 // number, stamp, forgotten, removed
	recSession                           // all but the data
	recSessionData                       // all
	recSessionGone
	recValue     // a string
	recHash      // a hash with all fields
	recFields    // fields of a hash that were set
	recNoFields  // fields of a hash that were removed
	recValueMeta // expiry and stamp
	recValueGone
	recFlush
	recLock
	recLockGone
	recTogether // records, each with its length before it: all of them happened in one step
	recNoValues // from here on no values are kept: those before it are gone
	recFlushIn  // a flush of some shards
	recClear    // a shard has nothing: what follows is all that it has
	recHold     // one hold of a lock that was granted or renewed, and when
	recHoldGone // one hold of a lock that was released while others stay, and when
)

// IsCache says whether a record is about values, which can be left out of a journal.
func IsCache(record []byte) bool {
	if len(record) > 0 && recordKind(record[0]) == recTogether {
		r := &reader{b: record[1:]}
		return IsCache(r.bytes()) // steps on several keys are steps on values
	}
	if len(record) == 0 {
		return false
	}
	kind := recordKind(record[0])
	return kind >= recValue && kind <= recFlush || kind == recFlushIn
}

// NoValues is a record to be put where a journal begins to leave values out. Without it, values from before would
// come back later, older than what was acknowledged meanwhile.
func NoValues() []byte { return []byte{byte(recNoValues)} }

// ErrRecord is returned for bytes that are not a record of this version.
var ErrRecord = errors.New("not a record")

// OnChange has the store hand a record of each change to sink too, also of those that it adopts. The sink must copy what it keeps. The shard
// of the entry is held meanwhile, so records of one key come in the order of its changes. It must be called before the store is used.
func (s *Store) OnChange(sink func(record []byte)) { s.sinks = append(s.sinks, sink) }

// OnCopy has the store hand each record of what it decides itself to copy as well, with the shard that it is about and that is held
// meanwhile. A change of several shards comes in parts, those of each shard by themselves, for copies of
// them may be at different places. It must be called before the store is used.
func (s *Store) OnCopy(copy func(shard int, record []byte)) { s.copies = copy }

// recorded says whether anybody wants records.
func (s *Store) recorded() bool { return len(s.sinks) > 0 || s.copies != nil }

// note hands a record, which encode appends to an empty buffer, to those who want it.
func (sh *shard) note(encode func(b []byte) []byte) {
	if !sh.store.recorded() {
		return
	}
	sh.noteCopy(encode)
	sh.keep()
}

// noteCopy encodes a record into the shard's buffer and has it copied.
func (sh *shard) noteCopy(encode func(b []byte) []byte) {
	sh.buf = encode(sh.buf[:0])
	sh.changed = true
	if copies := sh.store.copies; copies != nil {
		copies(sh.number, sh.buf)
	}
}

// keep hands the record in the shard's buffer to the sinks, or to the step of which it is part.
func (sh *shard) keep() {
	if sh.step != nil {
		sh.step.add(sh.buf)
	} else {
		sh.store.hand(sh.buf)
	}
	if cap(sh.buf) > maxScratch {
		sh.buf = nil
	}
}

// hand gives a record to the sinks.
func (s *Store) hand(record []byte) {
	for _, sink := range s.sinks {
		sink(record)
	}
}

// noteFlush hands the record of a flush of some shards, which are held, to the sinks, and has each shard's part copied.
func (s *Store) noteFlush(c *Command, about ShardSet, gone uint64) {
	if !s.recorded() {
		return
	}
	var last *shard
	for i := range about.All() {
		var one ShardSet
		one.Add(i)
		last = &s.shards[i]
		last.noteCopy(encodeFlush(c.Space, one, gone))
	}
	if last != nil {
		last.buf = encodeFlush(c.Space, about, gone)(last.buf[:0])
		last.keep()
	}
}

func encodeFlush(s Space, about ShardSet, stamp uint64) func([]byte) []byte {
	if about == AllShards() {
		return encodeGone(recFlush, s, "", stamp)
	}
	return func(b []byte) []byte { return about.append(encodeGone(recFlushIn, s, "", stamp)(b)) }
}

// maxScratch is the largest buffer that a shard keeps for encoding.
const maxScratch = 16 << 10

// step collects the records of a step on several keys, which must be replayed all or none: half a rename would lose the value.
type step struct{ record []byte }

func (g *step) add(record []byte) {
	if len(g.record) == 0 {
		g.record = append(g.record, byte(recTogether))
	}
	g.record = appendBytes(g.record, record)
}

// together has the records that f makes in some shards, which are held, replayed all or none.
func (s *Store) together(shards []*shard, f func()) {
	if len(s.sinks) == 0 {
		f()
		return
	}
	g := &step{}
	for _, sh := range shards {
		sh.step = g
	}
	f()
	for _, sh := range shards {
		sh.step = nil
	}
	if len(g.record) > 0 {
		s.hand(g.record)
	}
}

func appendBytes[T string | []byte](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

func appendKey(kind recordKind, b []byte, s Space, key string) []byte {
	b = appendBytes(appendBytes(append(b, byte(kind)), s.Tenant), s.Bucket)
	return appendBytes(b, key)
}

// The flags of a hold.
const (
	holdBound = 1 << iota
	holdEnded
)

func (h *hold) encode(b []byte) []byte {
	b = appendBytes(b, h.token)
	if h.token == "" {
		return b
	}
	b = binary.AppendUvarint(b, h.fence)
	b = binary.AppendVarint(b, h.since)
	b = binary.AppendVarint(b, h.until)
	flags := byte(0)
	if h.bound {
		flags |= holdBound
	}
	if h.ended {
		flags |= holdEnded
	}
	b = append(b, flags)
	var who Who
	if h.who != nil {
		who = *h.who
	}
	b = binary.AppendVarint(b, int64(who.PID))
	return appendBytes(appendBytes(b, who.SAPI), who.Script)
}

func (x *session) encode(b []byte, withData bool) []byte {
	kind := recSession
	if withData {
		kind = recSessionData
	}
	b = appendKey(kind, b, x.space.name, x.key)
	b = binary.AppendVarint(b, x.expiresAt)
	b = binary.AppendUvarint(b, x.grant)
	b = binary.AppendUvarint(b, x.destroyed)
	b = binary.AppendVarint(b, x.tombstone)
	b = x.hold.encode(b)
	if !withData {
		return b
	}
	if x.data == nil {
		return append(b, 0)
	}
	return appendBytes(append(b, 1), x.data)
}

func (v *value) encode(b []byte) []byte {
	if v.hash == nil {
		b = v.encodeHead(recValue, b)
		return appendBytes(binary.AppendUvarint(b, uint64(v.plain)), v.data)
	}
	b = binary.AppendUvarint(v.encodeHead(recHash, b), uint64(len(v.hash)))
	for _, field := range slices.Sorted(maps.Keys(v.hash)) {
		b = appendBytes(appendBytes(b, field), v.hash[field])
	}
	return b
}

func (v *value) encodeHead(kind recordKind, b []byte) []byte {
	b = appendKey(kind, b, v.space.name, v.key)
	return binary.AppendUvarint(binary.AppendVarint(b, v.at), v.stamp)
}

// piece is how many bytes of a hash's fields go into one record of a snapshot, about: a hash may be larger than any record should be.
const piece = 1 << 20

// image calls put with the records that make up the value, encoded into b: one, or several for a large hash.
func (v *value) image(b []byte, put func([]byte)) {
	if v.hash == nil || v.cost <= piece {
		put(v.encode(b))
		return
	}
	put(binary.AppendUvarint(v.encodeHead(recHash, b), 0))
	var pairs [][]byte
	size := 0
	flush := func() {
		put(v.encodeFields(recFields, b, pairs))
		pairs, size = pairs[:0], 0
	}
	for field, data := range v.hash {
		pairs = append(pairs, []byte(field), data)
		if size += len(field) + len(data); size >= piece {
			flush()
		}
	}
	if len(pairs) > 0 {
		flush()
	}
}

// encodeFields is the record of a change to some fields: names, or names and values in turn.
func (v *value) encodeFields(kind recordKind, b []byte, pairs [][]byte) []byte {
	b = appendKey(kind, b, v.space.name, v.key)
	b = binary.AppendUvarint(b, v.stamp)
	b = binary.AppendUvarint(b, uint64(len(pairs)))
	for _, p := range pairs {
		b = appendBytes(b, p)
	}
	return b
}

func (v *value) encodeMeta(b []byte) []byte {
	b = appendKey(recValueMeta, b, v.space.name, v.key)
	return binary.AppendUvarint(binary.AppendVarint(b, v.at), v.stamp)
}

func (l *lock) encode(b []byte) []byte {
	b = appendKey(recLock, b, l.space.name, l.key)
	shared := byte(0)
	if l.shared {
		shared = 1
	}
	b = binary.AppendUvarint(append(b, shared), uint64(len(l.holds)))
	for i := range l.holds {
		b = l.holds[i].encode(b)
	}
	return b
}

// image calls put with the records that make up the lock, encoded into b: one, or one for each hold of many.
func (l *lock) image(b []byte, put func([]byte)) {
	if l.cost <= piece {
		put(l.encode(b))
		return
	}
	for i := range l.holds {
		put(l.encodeHold(b, i, 0))
	}
}

// encodeHold is the record of a change to one hold: with many holders, one of all of them would be as many times larger. now is when
// it changed, for holds whose lease was over by then have gone without a record.
func (l *lock) encodeHold(b []byte, own int, now int64) []byte {
	b = binary.AppendVarint(appendKey(recHold, b, l.space.name, l.key), now)
	shared := byte(0)
	if l.shared {
		shared = 1
	}
	return l.holds[own].encode(append(b, shared))
}

func (l *lock) encodeHoldGone(b, token []byte, now int64) []byte {
	b = binary.AppendVarint(appendKey(recHoldGone, b, l.space.name, l.key), now)
	return appendBytes(b, token)
}

func encodeGone(kind recordKind, s Space, key string, stamp uint64) func([]byte) []byte {
	return func(b []byte) []byte { return binary.AppendUvarint(appendKey(kind, b, s, key), stamp) }
}

// Snapshot calls emit with records that make up one shard: enough to restore it together with the records
// of the changes made since Snapshot began. The shard is held throughout; emit must copy what it keeps.
func (s *Store) Snapshot(shard int, emit func(record []byte)) {
	sh := &s.shards[shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.snapshot(nil, emit)
}

// Copy is Snapshot for a copy at another place, which may have older entries of the shard or such that came of nothing: its first record
// ends those. All records of changes that OnCopy hands out before it are in it, and none of those after it.
func (s *Store) Copy(shard int, emit func(record []byte)) {
	sh := &s.shards[shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	b := binary.AppendUvarint([]byte{byte(recClear)}, uint64(shard))
	emit(b)
	sh.snapshot(b, emit)
}

// snapshot emits the records that make up the shard, encoded into b.
func (sh *shard) snapshot(b []byte, emit func(record []byte)) {
	put := func(encoded []byte) {
		b = encoded
		emit(b)
	}
	put(sh.encodeState(b[:0], sh.number))
	for _, sp := range sh.order {
		for _, x := range sp.sessions {
			put(x.encode(b[:0], true))
		}
		for _, l := range sp.locks {
			l.image(b[:0], put)
		}
		for _, v := range sp.bucket.list {
			v.image(b[:0], put)
		}
	}
}

func (sh *shard) encodeState(b []byte, number int) []byte {
	b = binary.AppendUvarint(append(b, byte(recShard)), uint64(number))
	b = binary.AppendUvarint(binary.AppendUvarint(b, sh.stamp), sh.forgotten)
	for _, stamp := range sh.removed {
		b = binary.AppendUvarint(b, stamp)
	}
	return b
}

// reader reads the parts of a record, command or result. After the first fault it reads zeros, and err says what was wrong.
type reader struct {
	b   []byte
	is  error // what err wraps; nil: ErrRecord
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", cmp.Or(r.is, ErrRecord), what)
	}
	r.b = nil
}

func (r *reader) uint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.fail("a number is cut short")
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) int() int64 {
	n, size := binary.Varint(r.b)
	if size <= 0 {
		r.fail("a number is cut short")
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail("it ends too soon")
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) bytes() []byte {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.fail("a length is beyond its end")
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) hold() hold {
	h := hold{token: string(r.bytes())}
	if h.token == "" {
		return h
	}
	h.fence, h.since, h.until = r.uint(), r.int(), r.int()
	flags := r.byte()
	h.bound, h.ended = flags&holdBound != 0, flags&holdEnded != 0
	h.who = &Who{PID: int(r.int()), SAPI: string(r.bytes()), Script: string(r.bytes())}
	return h
}

// ShardOf returns the shard that a record is about, or -1 when that is not one alone. Records of different shards may be replayed at the
// same time, but none beside one that is about several.
func ShardOf(record []byte) int {
	r := &reader{b: record}
	switch kind := recordKind(r.byte()); kind {
	case recTogether, recNoValues, recFlush:
		return -1
	case recShard, recClear:
		return int(r.uint() % Shards)
	case recFlushIn:
		_, _, about := r.flush()
		return about.only()
	}
	r.bytes()
	r.bytes()
	return int(shardOf(r.bytes()))
}

// flush reads what follows the kind of a recFlushIn.
func (r *reader) flush() (Space, uint64, ShardSet) {
	space := r.space()
	r.bytes()
	return space, r.uint(), r.shardSet()
}

// Restore replays one record of this store. It returns an error that wraps ErrRecord when it is not one; then nothing of it
// has an effect that could be mistaken for a record's.
func (s *Store) Restore(record []byte) error {
	shard := ShardOf(record)
	if shard < 0 {
		return s.restoreSeveral(record)
	}
	sh := &s.shards[shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.restore(record)
}

// Adopt takes a record that another store's OnCopy or Copy gave: it replays it and hands it to the sinks in one step, so that
// they get the records of a shard in their order. It returns an error that wraps ErrRecord when it is none.
func (s *Store) Adopt(record []byte) error {
	shard := ShardOf(record)
	if shard < 0 {
		return fmt.Errorf("%w of one shard", ErrRecord)
	}
	sh := &s.shards[shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if err := sh.restore(record); err != nil {
		return err
	}
	s.hand(record)
	return nil
}

// restoreSeveral replays a record that is about several shards, or none.
func (s *Store) restoreSeveral(record []byte) error {
	r := &reader{b: record}
	switch recordKind(r.byte()) {
	case recTogether:
		return s.restoreTogether(r)
	case recNoValues:
		s.dropValues()
	case recFlush:
		space := r.space()
		r.bytes()
		s.restoreFlush(r, space, r.uint(), AllShards())
	case recFlushIn:
		space, stamp, about := r.flush()
		s.restoreFlush(r, space, stamp, about)
	}
	return r.err
}

// restore replays a record that is about this shard, which is held.
func (sh *shard) restore(record []byte) error {
	r := &reader{b: record}
	kind := recordKind(r.byte())
	switch kind {
	case recShard:
		sh.restoreState(r)
		return r.err
	case recClear:
		if r.uint() >= Shards {
			r.fail("there is no such shard")
		} else if r.err == nil {
			sh.clear()
		}
		return r.err
	case recFlushIn:
		space, stamp, _ := r.flush()
		if r.err == nil {
			sh.flush(&Command{Space: space}, stamp)
		}
		return r.err
	}
	c := &Command{Space: r.space(), Key: r.bytes()}
	if r.err != nil {
		return r.err
	}
	switch kind {
	case recSession, recSessionData, recSessionGone:
		sh.restoreSession(r, c, kind)
	case recValue, recHash, recFields, recNoFields, recValueMeta, recValueGone:
		sh.restoreValue(r, c, kind)
	case recLock, recLockGone:
		sh.restoreLock(r, c, kind)
	case recHold:
		sh.restoreHold(r, c)
	case recHoldGone:
		sh.restoreHoldGone(r, c)
	default:
		r.fail("its kind is unknown; a newer version may have written it")
	}
	return r.err
}

func (sh *shard) restoreState(r *reader) {
	number := r.uint()
	stamp, forgotten := r.uint(), r.uint()
	var removed [len(shard{}.removed)]uint64
	for i := range removed {
		removed[i] = r.uint()
	}
	if number >= Shards {
		r.fail("there is no such shard")
	}
	if r.err != nil {
		return
	}
	sh.stamp, sh.forgotten, sh.removed = max(sh.stamp, stamp), max(sh.forgotten, forgotten), removed
}

// clear drops everything, as if it had never been. Only the stamps go on: whoever was told one must not meet it again.
func (sh *shard) clear() {
	for _, sp := range slices.Clone(sh.order) {
		for _, x := range sp.sessions {
			x.drop(sh)
		}
		for _, l := range sp.locks {
			l.drop(sh)
		}
		sh.empty(sp, 0)
	}
	sh.forgotten, sh.removed = 0, [len(shard{}.removed)]uint64{}
}

func (s *Store) restoreTogether(r *reader) error {
	for len(r.b) > 0 {
		record := r.bytes()
		if len(record) > 0 && recordKind(record[0]) == recTogether {
			r.fail("a step is within a step")
		}
		if r.err != nil {
			return r.err
		}
		if err := s.Restore(record); err != nil {
			return err
		}
	}
	return nil
}

// dropValues drops every value, as if it had never been.
func (s *Store) dropValues() {
	s.each(&Command{}, func(sh *shard) bool {
		for _, sp := range slices.Clone(sh.order) { // a space that becomes empty leaves it
			sh.empty(sp, sh.stamp)
		}
		return true
	})
}

func (s *Store) restoreFlush(r *reader, space Space, stamp uint64, about ShardSet) {
	if r.err != nil {
		return
	}
	c := &Command{Space: space, Only: &about}
	s.each(c, func(sh *shard) bool {
		sh.flush(c, stamp)
		return true
	})
}

func (sh *shard) restoreSession(r *reader, c *Command, kind recordKind) {
	var image session
	if kind == recSessionGone {
		stamp := r.uint()
		sh.stamp = max(sh.stamp, stamp)
		if sp := sh.space(c); r.err == nil && sp != nil && sp.sessions[string(c.Key)] != nil {
			sp.sessions[string(c.Key)].drop(sh)
		}
		sh.forgotten = max(sh.forgotten, stamp)
		return
	}
	image.expiresAt, image.grant, image.destroyed, image.tombstone = r.int(), r.uint(), r.uint(), r.int()
	image.hold = r.hold()
	var data []byte
	if kind == recSessionData && r.byte() == 1 {
		data = append([]byte{}, r.bytes()...)
	}
	if r.err != nil {
		return
	}
	sp := sh.makeSpace(c)
	x := sp.sessions[string(c.Key)]
	if x == nil {
		x = &session{space: sp, key: string(c.Key)}
		sp.sessions[x.key] = x
	}
	if known := max(x.grant, x.destroyed); max(image.grant, image.destroyed) < known {
		sh.forgotten = max(sh.forgotten, known) // an entry whose time was up made room for this one without a record
	}
	x.expiresAt, x.grant, x.destroyed, x.tombstone = image.expiresAt, image.grant, image.destroyed, image.tombstone
	sh.setHold(x, image.hold)
	if kind == recSessionData {
		sh.setData(x, data)
	}
	sh.stamp = max(sh.stamp, x.grant, x.destroyed)
	// What is over by now is dropped by the next sweep: here, nobody knows the time.
	sh.due.schedule(x, max(x.end(), 1))
	sh.chargeSession(x, x.costs())
}

func (sh *shard) restoreValue(r *reader, c *Command, kind recordKind) {
	var v *value
	if sp := sh.space(c); sp != nil {
		v = sp.bucket.values[string(c.Key)]
	}
	switch kind {
	case recValueGone:
		stamp := r.uint()
		sh.stamp = max(sh.stamp, stamp)
		if v != nil && r.err == nil {
			sh.removed[slot(v.key)] = max(sh.removed[slot(v.key)], stamp)
			sh.unlink(v)
		}
	case recValueMeta:
		at, stamp := r.int(), r.uint()
		if v != nil && r.err == nil {
			v.stamp = stamp
			v.space.bucket.due.schedule(v, at)
		}
	case recFields, recNoFields:
		sh.restoreFields(r, v, kind)
	default:
		sh.restoreImage(r, c, v, kind)
	}
}

func (sh *shard) restoreImage(r *reader, c *Command, v *value, kind recordKind) {
	at, stamp := r.int(), r.uint()
	var data []byte
	var plain int
	var fields map[string][]byte
	if kind == recValue {
		plain = int(r.uint())
		data = slices.Clone(r.bytes())
	} else {
		n := r.uint()
		fields = make(map[string][]byte, min(n, uint64(len(r.b))))
		for range n {
			if r.err != nil {
				return
			}
			field := string(r.bytes())
			fields[field] = slices.Clone(r.bytes())
		}
	}
	if r.err != nil {
		return
	}
	if v == nil {
		v = sh.link(c)
	}
	v.data, v.plain, v.hash, v.stamp = data, plain, fields, stamp
	sh.stamp = max(sh.stamp, stamp)
	v.space.bucket.due.schedule(v, at)
	cost := valueCost(len(v.key)) + int64(cap(data))
	if fields != nil {
		cost += hashCost(len(fields))
	}
	for field, d := range fields {
		cost += costOf(field, d)
	}
	sh.chargeValue(v, cost)
}

func (sh *shard) restoreFields(r *reader, v *value, kind recordKind) {
	stamp, n := r.uint(), r.uint()
	if v == nil || v.hash == nil {
		return // it is gone by a later record
	}
	v.stamp = stamp
	sh.stamp = max(sh.stamp, stamp)
	for i := uint64(0); i < n && r.err == nil; i++ {
		field := string(r.bytes())
		if kind == recFields {
			data := slices.Clone(r.bytes())
			if i++; r.err == nil {
				sh.setField(v, field, data)
			}
		} else if r.err == nil {
			sh.removeField(v, field)
		}
	}
}

func (sh *shard) restoreLock(r *reader, c *Command, kind recordKind) {
	l := sh.knownLock(c)
	if kind == recLockGone {
		sh.stamp = max(sh.stamp, r.uint())
		if l != nil && r.err == nil {
			l.drop(sh)
		}
		return
	}
	shared, n := r.byte() == 1, r.uint()
	var holds []hold
	for range n {
		if r.err != nil {
			return
		}
		h := r.hold()
		sh.stamp = max(sh.stamp, h.fence)
		holds = append(holds, h)
	}
	if r.err != nil {
		return
	}
	l = sh.makeLock(l, c)
	l.shared, l.holds = shared, holds
	sh.schedule(l)
}

// knownLock returns the lock of the command's name, or nil. Nobody knows the time.
func (sh *shard) knownLock(c *Command) *lock {
	if sp := sh.space(c); sp != nil {
		return sp.locks[string(c.Key)]
	}
	return nil
}

func (sh *shard) restoreHold(r *reader, c *Command) {
	now, shared, h := r.int(), r.byte() == 1, r.hold()
	if r.err == nil && h.token == "" {
		r.fail("a hold has no token")
	}
	if r.err != nil {
		return
	}
	sh.stamp = max(sh.stamp, h.fence)
	l := sh.makeLock(sh.knownLock(c), c)
	l.prune(now)
	if !shared { // whoever was there has gone
		clear(l.holds)
		l.holds = l.holds[:0]
	}
	l.put(h)
	l.shared = shared
	sh.schedule(l)
}

// put adds a hold where its fence belongs, in place of the one that its token has.
func (l *lock) put(h hold) {
	if own := l.find([]byte(h.token)); own >= 0 {
		l.remove(own)
	}
	at, _ := slices.BinarySearchFunc(l.holds, h.fence, func(of hold, fence uint64) int { return cmp.Compare(of.fence, fence) })
	l.holds = slices.Insert(l.holds, at, h)
}

func (sh *shard) restoreHoldGone(r *reader, c *Command) {
	now, token := r.int(), r.bytes()
	l := sh.knownLock(c)
	if r.err != nil || l == nil {
		return
	}
	l.prune(now)
	if own := l.find(token); own >= 0 {
		l.remove(own)
	}
	if len(l.holds) == 0 {
		l.drop(sh)
		return
	}
	sh.schedule(l)
}
