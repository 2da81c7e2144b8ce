package owner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// errView is returned when the view has changed meanwhile.
var errView = errors.New("the view has changed meanwhile")

// errNoView is returned while there is no view yet.
var errNoView = errors.New("the hosts have not agreed on a view yet: fewer than a majority are heard")

// handing says to whom a shard was handed over, and in which view.
type handing struct {
	to   string
	view ViewID
}

// handout is the handing over of shards to one host, in pieces: each question for a piece says that the one before it is in its place.
type handout struct {
	id     uint64
	number uint64 // of the last piece
	answer []byte // the last piece
	ended  []int  // the shards that ended with it
	left   []wanted
	items  []item // of the shard that is under way
	turn   chan struct{}
}

// wanted is a shard that a host asks for, with the stream that its copy of it followed.
type wanted struct {
	shard  int
	stream uint64
}

// The first byte of an answer to a question for a piece.
const (
	pulled          byte = iota // whether there is more, and items, follow
	pulledOtherView             // the answerer's view follows
	pulledUnknown               // the answerer does not know of the pull: it is to begin anew
)

// servePull hands shards over to their owner by the view.
func (s *Seat) servePull(_ context.Context, from string, body []byte) ([]byte, error) {
	r := &reader{b: body}
	id, pull, number := r.viewID(), r.uint(), r.uint()
	list := make([]wanted, 0, r.count(2))
	for range cap(list) {
		list = append(list, wanted{int(r.byte()), r.uint()})
	}
	if r.err != nil {
		return nil, r.err
	}
	v := s.view()
	if v.id != id {
		return v.id.append([]byte{pulledOtherView}), nil
	}
	h := s.handoutTo(v, from, pull, number, list)
	if h == nil {
		return []byte{pulledUnknown}, nil
	}
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	switch number {
	case h.number: // the answer was lost
	case h.number + 1:
		s.handedOver(v, from, h.ended)
		h.number, h.answer = number, s.nextPiece(from, h)
	default:
		return []byte{pulledUnknown}, nil
	}
	return h.answer, nil
}

// handoutTo returns the handing over to a peer, which begins with number 1; nil: it is not known.
func (s *Seat) handoutTo(v *view, peer string, id, number uint64, list []wanted) *handout {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view() != v {
		return nil
	}
	h := s.handouts[peer]
	if h == nil || h.id != id {
		if number != 1 {
			return nil
		}
		list = slices.DeleteFunc(list, func(w wanted) bool { return v.owner(w.shard) != peer })
		h = &handout{id: id, left: list, turn: make(chan struct{}, 1)}
		s.handouts[peer] = h
	}
	return h
}

// handedOver notes that shards are in their places at the peer.
func (s *Seat) handedOver(v *view, peer string, shards []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view() != v || len(shards) == 0 {
		return
	}
	for _, shard := range shards {
		s.handed[shard] = handing{peer, v.id}
	}
	s.broadcast()
}

// nextPiece takes the next items. Nobody decides on the shards any more: the gates were closed when the view was accepted.
func (s *Seat) nextPiece(peer string, h *handout) []byte {
	size := 0
	var piece []item
	h.ended = nil
	for size < pieceBytes {
		if len(h.items) == 0 {
			if len(h.left) == 0 {
				break
			}
			h.items = s.remains(peer, h.left[0])
			h.left = h.left[1:]
		}
		n := cut(h.items, pieceBytes-size)
		for _, i := range h.items[:n] {
			size += i.size()
			if i.kind == itemEnd {
				h.ended = append(h.ended, i.shard)
			}
		}
		piece = append(piece, h.items[:n]...)
		h.items = h.items[n:]
	}
	more := len(h.items)+len(h.left) > 0
	return appendItems(appendBool([]byte{pulled}, more), piece)
}

// remains returns what a peer needs to have all of a shard.
func (s *Seat) remains(peer string, w wanted) []item {
	s.mu.Lock()
	t := s.streams[peer]
	s.mu.Unlock()
	if t != nil {
		if items, ok := t.tail(w.shard, w.stream); ok {
			return items
		}
	}
	return s.image(w.shard)
}

// pieceTries is how many times a piece is asked for in vain.
const pieceTries = 8

// pull gets shards from a host, piece by piece, and calls got with those that are in their places. It returns those that it could not get.
func (s *Seat) pull(ctx context.Context, v *view, source string, shards []int, c *claims, got func([]int)) []int {
	left := make(map[int]bool)
	var list []byte
	s.mu.Lock()
	id := s.nextStream()
	list = appendUint(nil, uint64(len(shards)))
	for _, shard := range shards {
		left[shard] = true
		list = appendUint(append(list, byte(shard)), s.source[shard])
	}
	s.mu.Unlock()
	stages := make(map[int]*staged)
	for number, more := uint64(1), true; more && ctx.Err() == nil; number++ {
		question := append(appendUint(appendUint(v.id.append(nil), id), number), list...)
		list = []byte{0}
		items, again, err := s.pullPiece(ctx, source, question)
		if err != nil {
			s.says.warn(source, "shards cannot be had of a host", "host", source, "shards", len(left), "error", err)
			break
		}
		more = again || len(items) > 0 // one question more says that the last piece is in its place
		ended, err := s.takePiece(v, stages, items, c)
		if err != nil {
			s.says.warn(source, "shards cannot be taken over", "host", source, "shards", len(left), "error", err)
			break
		}
		for _, shard := range ended {
			delete(left, shard)
		}
		if len(ended) > 0 {
			got(ended)
		}
	}
	return slices.Sorted(maps.Keys(left))
}

// pullPiece asks for a piece until it is answered.
func (s *Seat) pullPiece(ctx context.Context, source string, question []byte) ([]item, bool, error) {
	var err error
	for range pieceTries {
		var b []byte
		once, cancel := context.WithTimeout(ctx, heardFor)
		b, err = s.call(once, source, false, kindPull, question)
		cancel()
		if err == nil {
			r := &reader{b: b}
			switch r.byte() {
			case pulled:
				more, items := r.bool(), readItems(r)
				return items, more, r.err
			case pulledUnknown:
				return nil, false, errors.New("the host does not know of it any more")
			}
			err = errView
		}
		if ctx.Err() != nil {
			return nil, false, ctx.Err()
		}
		pause(ctx, beat)
	}
	return nil, false, err
}

// takePiece takes the items of a piece and returns the shards that ended with it.
func (s *Seat) takePiece(v *view, stages map[int]*staged, items []item, c *claims) ([]int, error) {
	var ended []int
	whole := make(map[int]*staged)
	tails := make(map[int]*staged)
	for _, i := range items {
		stage := stages[i.shard]
		switch {
		case i.kind == itemBegin, i.kind == itemTail:
			stages[i.shard] = &staged{tail: i.kind == itemTail}
		case i.kind == itemRecord && stage != nil:
			stage.records = append(stage.records, i.record)
		case i.kind == itemEnd && stage != nil:
			ended = append(ended, i.shard)
			delete(stages, i.shard)
			if stage.tail {
				tails[i.shard] = stage
			} else {
				whole[i.shard] = stage
			}
		default:
			return nil, fmt.Errorf("%w: a part of shard %d is out of place", errMessage, i.shard)
		}
	}
	if err := s.complete(v, tails); err != nil {
		return nil, err
	}
	byClaim := make(map[claim]map[int]*staged)
	for shard, stage := range whole {
		if byClaim[c[shard]] == nil {
			byClaim[c[shard]] = make(map[int]*staged)
		}
		byClaim[c[shard]][shard] = stage
	}
	for is, copies := range byClaim {
		if err := s.put(v, copies, is, 0); err != nil {
			return nil, err
		}
	}
	return ended, nil
}

// complete adds to copies what they lack.
func (s *Seat) complete(v *view, tails map[int]*staged) error {
	if len(tails) == 0 {
		return nil
	}
	s.install <- struct{}{}
	defer func() { <-s.install }()
	if s.view() != v {
		return errView
	}
	for shard, stage := range tails {
		for _, record := range stage.records {
			if err := s.cfg.Store.Adopt(record); err != nil {
				return fmt.Errorf("complete the copy of shard %d: %w", shard, err)
			}
		}
	}
	return s.sync()
}

// Leave has other hosts take over what this host owns and returns when they have, or ctx ends. The host answers as before, and does not become a
// member of a view again before Return.
func (s *Seat) Leave(ctx context.Context) error {
	s.mu.Lock()
	s.leaving = true
	s.mu.Unlock()
	s.hurry()
	for {
		changed := s.viewChanged()
		if s.left() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("leave the view: not all shards were taken over: %w", ctx.Err())
		case <-changed:
		case <-time.After(beat):
		}
	}
}

// Return takes back a Leave: the host may become a member of a view again.
func (s *Seat) Return() {
	s.mu.Lock()
	s.leaving = false
	s.mu.Unlock()
	s.hurry()
}

// left says whether this host is in no view, and what it owned was taken over.
func (s *Seat) left() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view()
	if _, member := v.member(s.self.ID); member {
		return len(s.members()) == 0
	}
	for shard, c := range s.claims {
		if served := s.served[shard].Load(); served > 0 && c == (claim{served, asOwner}) && s.handed[shard].view.Epoch <= served {
			return len(v.members) == 0
		}
	}
	return true
}
