package owner

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// How much travels at once, and how much may wait.
const (
	pieceBytes = 1 << 20   // of a question or answer, about; a single record may be larger
	bulkBytes  = 256 << 10 // of new copies in a batch, so that they do not hold up the records behind which somebody waits
	maxWaiting = 64 << 20  // of records that wait for a runner-up; beyond it all its copies are begun anew
)

// progress says how far a runner-up's copy of a shard is.
type progress byte

const (
	unsent  progress = iota // the peer gets no copy of the shard
	waiting                 // its copy is to be begun anew
	sending                 // the copy is on its way, and records follow it
	whole                   // records alone are sent
	parted                  // the peer is to take the shard over: the rest is kept for it
)

// stream takes the records of shards to one host's life, their runner-up, in order. It goes on from view to view.
type stream struct {
	seat *Seat
	to   seated
	id   uint64 // grows with each stream of this host's life to a peer
	wake chan struct{}
	end  context.CancelFunc

	mu     sync.Mutex // taken with a shard of the store held, and with the Seat's mu held
	shards [store.Shards]struct {
		progress progress
		wanted   bool   // somebody waits for it
		batch    uint64 // that made the copy whole
		lost     uint64 // tickets up to this one are of no use: the copy was begun anew since
		bulk     int    // items of it in bulk
	} // guarded by mu
	live    []item         // of whole copies; guarded by mu
	bulk    []item         // of copies that are being sent; guarded by mu
	view    *view          // by which batches are sent; nil: none is for now; guarded by mu
	flight  []item         // of the batch that is on its way; guarded by mu
	flying  bool           // there is one; guarded by mu
	rest    map[int][]item // of parted shards; guarded by mu
	bytes   int            // of live and bulk; guarded by mu
	ticket  uint64         // of the last record put into live; guarded by mu
	acked   uint64         // the last ticket that was acknowledged; guarded by mu
	batch   uint64         // number of the batch that is on its way, or was last; guarded by mu
	ackedTo uint64         // number of the last batch that was acknowledged; guarded by mu
	told    chan struct{}  // closed when any of this changes for those who wait; guarded by mu
}

// streamTo returns the stream to a member, which is made if there is none to its present life. mu is held.
func (s *Seat) streamTo(m seated) *stream {
	if t := s.streams[m.ID]; t != nil {
		if t.to.Boot == m.Boot {
			return t
		}
		t.end()
	}
	t := &stream{seat: s, to: m, id: s.nextStream(), view: s.view(), wake: make(chan struct{}, 1), rest: make(map[int][]item), told: make(chan struct{})}
	var ctx context.Context
	ctx, t.end = context.WithCancel(s.life)
	s.streams[m.ID] = t
	s.running.Go(func() { t.run(ctx) })
	return t
}

// nextStream returns a number that is higher than all before in this host's life, and most likely not of another life.
func (s *Seat) nextStream() uint64 {
	if s.lastStream == 0 {
		s.lastStream = rand.Uint64()>>16 | 1
	}
	s.lastStream++
	return s.lastStream
}

// copyRecord is the store's sink of what is decided here. A shard is held.
func (s *Seat) copyRecord(shard int, record []byte) {
	if t := s.copying[shard].Load(); t != nil {
		t.add(shard, record)
	}
}

func (t *stream) add(shard int, record []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := item{kind: itemRecord, shard: shard, record: append([]byte(nil), record...)}
	switch t.shards[shard].progress {
	case whole:
		t.addLive(i)
	case sending:
		t.addBulk(i)
	default:
		return // the copy that will be begun has it
	}
	if t.bytes > maxWaiting {
		t.loseAll()
	}
}

// addLive puts an item behind those of whole copies. mu is held, as in what follows.
func (t *stream) addLive(i item) {
	t.ticket++
	i.ticket = t.ticket
	t.live = append(t.live, i)
	t.bytes += i.size()
	t.rouse()
}

func (t *stream) addBulk(i item) {
	t.shards[i.shard].bulk++
	t.bulk = append(t.bulk, i)
	t.bytes += i.size()
	t.rouse()
}

func (t *stream) rouse() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// tell wakes those who wait for an acknowledgement.
func (t *stream) tell() {
	close(t.told)
	t.told = make(chan struct{})
}

// lose has the copy of a shard begun anew.
func (t *stream) lose(shard int) {
	t.drop(shard)
	t.shards[shard].progress = waiting
	t.rouse()
}

// loseAll has all copies begun anew.
func (t *stream) loseAll() {
	for shard := range t.shards {
		if p := t.shards[shard].progress; p == sending || p == whole {
			t.shards[shard].progress = waiting
			t.shards[shard].bulk = 0
			t.shards[shard].lost = t.ticket
		}
	}
	t.live, t.bulk, t.bytes = nil, nil, 0
	t.rouse()
	t.tell()
}

// drop ends the copying of a shard.
func (t *stream) drop(shard int) {
	x := &t.shards[shard]
	if x.progress == whole || x.progress == sending {
		t.live = t.without(t.live, shard)
		t.bulk = t.without(t.bulk, shard)
	}
	// A batch that was not answered is sent again, in a later view too: what is no longer right must not be in it.
	if of := func(i item) bool { return i.shard == shard }; slices.ContainsFunc(t.flight, of) {
		t.flight = slices.DeleteFunc(slices.Clone(t.flight), of)
	}
	x.progress, x.wanted, x.bulk, x.lost = unsent, false, 0, t.ticket
	t.tell()
}

func (t *stream) without(items []item, shard int) []item {
	kept := items[:0:0]
	for _, i := range items {
		if i.shard == shard {
			t.bytes -= i.size()
		} else {
			kept = append(kept, i)
		}
	}
	return kept
}

// direct has a shard copied to the peer from here on. asIs: it has all that there is.
func (t *stream) direct(shard int, asIs bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(shard)
	t.shards[shard].progress = waiting
	if asIs {
		t.shards[shard].progress = whole
		t.shards[shard].batch = 0
		t.addLive(item{kind: itemAsIs, shard: shard})
	}
	t.rouse()
}

// goOn has the copying of a shard go on in the next view.
func (t *stream) goOn(shard int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shards[shard].progress == whole {
		t.addLive(item{kind: itemAsIs, shard: shard})
	}
}

// part keeps what the peer, which is to take the shard over, does not have for sure, if its copy is whole otherwise.
func (t *stream) part(shard int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	wasWhole := t.shards[shard].progress == whole && t.shards[shard].batch <= t.ackedTo
	var rest []item
	for _, items := range [][]item{t.flight, t.live} { // records may be taken twice, in order
		for _, i := range items {
			if i.shard == shard && i.kind == itemRecord {
				rest = append(rest, i)
			}
		}
	}
	t.drop(shard)
	if wasWhole {
		t.shards[shard].progress = parted
		t.rest[shard] = rest
	}
}

// sendBy has batches sent by a view from here on.
func (t *stream) sendBy(v *view) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.view = v
	t.rouse()
}

// prepare has nothing sent until the stream is right for the next view, and ends what part began.
func (t *stream) prepare() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.view = nil
	for shard := range t.rest {
		t.shards[shard].progress = unsent
	}
	clear(t.rest)
}

// tail returns what completes the copy that the peer has by a stream, and false if that is not known.
func (t *stream) tail(shard int, id uint64) ([]item, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id != t.id || t.shards[shard].progress != parted {
		return nil, false
	}
	items := append([]item{{kind: itemTail, shard: shard}}, t.rest[shard]...)
	return append(items, item{kind: itemEnd, shard: shard}), true
}

// wait returns a ticket for all that has been added of a shard.
func (t *stream) wait(shard int) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := &t.shards[shard]
	if x.progress == waiting && !x.wanted {
		x.wanted = true
		t.rouse()
	}
	return t.ticket
}

// has says whether the peer has acknowledged all up to a ticket, or a copy that was begun since, and the channel that tells when to ask again.
func (t *stream) has(shard int, ticket uint64) (bool, progress, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := &t.shards[shard]
	done := x.progress == whole && x.batch <= t.ackedTo && (ticket <= x.lost || ticket <= t.acked)
	return done, x.progress, t.told
}

// run sends batches until ctx ends, one at a time: what is added meanwhile makes the next one larger.
func (t *stream) run(ctx context.Context) {
	for ctx.Err() == nil {
		t.fill()
		v, number, items := t.next()
		if v == nil {
			select {
			case <-ctx.Done():
			case <-t.wake:
			}
			continue
		}
		changed := t.seat.viewChanged()
		if t.send(ctx, v, number, items) {
			continue
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(beat / 2):
		}
	}
}

// fill begins copies that wait, those first for which somebody waits, while there is room in the next batch.
func (t *stream) fill() {
	for {
		shard := t.waitsLongest()
		if shard < 0 {
			return
		}
		t.begin(shard)
	}
}

// waitsLongest returns a shard whose copy should be begun now, or -1.
func (t *stream) waitsLongest() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	size := 0
	for i := range t.bulk {
		if size += t.bulk[i].size(); size >= bulkBytes {
			return -1
		}
	}
	found := -1
	for shard := range t.shards {
		x := &t.shards[shard]
		if x.progress == waiting && (found < 0 || x.wanted) {
			if found = shard; x.wanted {
				break
			}
		}
	}
	return found
}

// begin puts a copy of the shard behind what is to be sent. Records that are made while the copy is taken come after it: both
// happen with the shard held.
func (t *stream) begin(shard int) {
	t.seat.m.resyncs.Inc()
	begun := false
	add := func(i item) {
		t.mu.Lock()
		defer t.mu.Unlock()
		x := &t.shards[shard]
		if !begun && x.progress == waiting {
			begun = true
			x.progress, x.wanted = sending, false
			t.addBulk(item{kind: itemBegin, shard: shard})
		}
		if begun && x.progress == sending {
			t.addBulk(i)
		}
	}
	t.seat.cfg.Store.Copy(shard, func(record []byte) {
		add(item{kind: itemRecord, shard: shard, record: append([]byte(nil), record...)})
	})
	add(item{kind: itemEnd, shard: shard})
}

// next returns the batch to be sent, that which was not answered or a new one, and the view by which it is right; nil: there is none.
func (t *stream) next() (*view, uint64, []item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.view == nil || t.flying {
		return t.view, t.batch, t.flight
	}
	n, m := cut(t.live, pieceBytes), cut(t.bulk, bulkBytes)
	if n+m == 0 {
		return nil, 0, nil
	}
	t.flying = true
	t.flight = append(append(make([]item, 0, n+m), t.live[:n]...), t.bulk[:m]...)
	t.live, t.bulk = t.live[n:], t.bulk[m:]
	t.batch++
	for i := range t.flight {
		t.bytes -= t.flight[i].size()
	}
	for _, i := range t.flight[n:] {
		if x := &t.shards[i.shard]; x.progress == sending {
			if x.bulk--; x.bulk == 0 {
				x.progress, x.batch = whole, t.batch
			}
		}
	}
	return t.view, t.batch, t.flight
}

// The first byte of an answer to a batch.
const (
	copyTaken     byte = iota // shards to be begun anew follow
	copyOtherView             // the receiver's view follows
	copyUnknown               // the receiver does not know the stream that far
)

// send sends a batch and notes the answer. It returns false if the batch should be sent again, after a while.
func (t *stream) send(ctx context.Context, v *view, number uint64, items []item) bool {
	ctx, cancel := context.WithTimeout(ctx, heardFor)
	defer cancel()
	b := appendString(v.id.append(nil), t.seat.self.Boot)
	b = appendUint(appendUint(b, t.id), number)
	answer, err := t.seat.call(ctx, t.to.ID, true, kindCopy, appendItems(b, items))
	if err != nil {
		return false
	}
	r := &reader{b: answer}
	switch r.byte() {
	case copyTaken:
		t.taken(number, items, r.bytes())
	case copyOtherView:
		if other := r.viewID(); r.err == nil {
			t.seat.overruled(v, other)
		}
		return false
	case copyUnknown:
		t.restart()
	default:
		r.fail("an answer is unknown")
	}
	if r.err != nil {
		t.seat.says.warn(t.to.ID, "a peer's answer to copies cannot be read", "peer", t.to.ID, "error", r.err)
	}
	return r.err == nil
}

// taken notes that a batch was acknowledged, but for some shards.
func (t *stream) taken(number uint64, items []item, anew []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, shard := range anew {
		if p := t.shards[shard].progress; p == whole || p == sending {
			t.lose(int(shard))
		}
	}
	for _, i := range items {
		t.acked = max(t.acked, i.ticket)
	}
	t.ackedTo, t.flight, t.flying = number, nil, false
	t.tell()
}

// restart begins all copies anew, under a new number, for a peer that knows nothing of what was sent.
func (t *stream) restart() {
	t.seat.mu.Lock()
	id := t.seat.nextStream()
	t.seat.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.id, t.batch, t.ackedTo, t.flight, t.flying = id, 0, 0, nil, false
	t.loseAll()
}

// overruled ends the permission to decide in a view, when a peer has accepted a later one.
func (s *Seat) overruled(v *view, other ViewID) {
	if other.Epoch <= v.id.Epoch {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view() == v {
		s.permit.Store(&permission{view: v})
		s.broadcast()
		s.hurry()
	}
}

// direct has a shard that is served here copied to its runner-up. mu is held.
func (s *Seat) direct(v *view, shard int, asIs bool) {
	m, found := v.member(v.runnerUp(shard))
	if !found {
		s.copying[shard].Store(nil)
		return
	}
	t := s.streamTo(m)
	t.direct(shard, asIs)
	s.copying[shard].Store(t)
}

// redirect prepares copying for the next view: where owner and runner-up stay it goes on, and where the runner-up is to take over, what it
// does not have is kept for it. mu is held, and the gates are closed.
func (s *Seat) redirect(old, v *view) {
	for _, t := range s.streams {
		t.prepare()
	}
	defer func() {
		for _, t := range s.streams {
			t.sendBy(v)
		}
	}()
	for shard := range s.copying {
		t := s.copying[shard].Load()
		mine := s.served[shard].Load() == old.id.Epoch && old.id.Epoch > 0
		stays := mine && v.owner(shard) == s.self.ID && v.id.Epoch == old.id.Epoch+1
		same := func(id string) bool { return t != nil && t.to.ID == id && v.has(id, t.to.Boot) }
		switch {
		case stays && same(v.runnerUp(shard)):
			t.goOn(shard)
			continue
		case mine && !stays && same(v.owner(shard)):
			t.part(shard)
		case t != nil:
			t.mu.Lock()
			t.drop(shard)
			t.mu.Unlock()
		}
		s.copying[shard].Store(nil)
		if stays {
			s.direct(v, shard, false)
		}
	}
}

// Why nobody knows whether a change lasts.
var (
	errStopped   = errors.New("this host was stopped, or cut off, while it decided")
	errUncopied  = errors.New("the copy was not acknowledged before this host ceased to be the owner")
	errOvertaken = errors.New("another host has owned the key since")
)
