package owner

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// inbound is a stream as its receiver sees it.
type inbound struct {
	boot   string
	id     uint64
	turn   chan struct{} // holds one who takes a batch
	number uint64        // of the last batch that was taken
	anew   []byte        // the shards that were asked for anew then
	staged map[int]*staged
}

// staged is a copy of a shard that is on its way, or has come and is not yet in its place.
type staged struct {
	records [][]byte
	ended   bool
	tail    bool // they complete the copy that is there
}

// serveCopy takes a batch of a stream: the receiver must be the runner-up of the shards by the view by which the sender is their
// owner. What is acknowledged is kept.
func (s *Seat) serveCopy(_ context.Context, from string, body []byte) ([]byte, error) {
	r := &reader{b: body}
	id, boot, stream, number := r.viewID(), r.string(), r.uint(), r.uint()
	items := readItems(r)
	if r.err != nil {
		return nil, r.err
	}
	otherView := func() []byte { return s.view().id.append([]byte{copyOtherView}) }
	if !s.intake.enter() {
		return otherView(), nil
	}
	defer s.intake.leave()
	v := s.view()
	if v.id != id || !v.has(from, boot) {
		return otherView(), nil
	}
	in := s.inboundOf(from, boot, stream, number)
	if in == nil {
		return []byte{copyUnknown}, nil
	}
	in.turn <- struct{}{}
	defer func() { <-in.turn }()
	switch number {
	case in.number: // the answer was lost
	case in.number + 1:
		anew, err := s.takeBatch(v, from, in, items)
		if err != nil {
			return nil, err
		}
		in.number, in.anew = number, anew
	default:
		return []byte{copyUnknown}, nil
	}
	return appendString([]byte{copyTaken}, in.anew), nil
}

// inboundOf returns a peer's stream; nil: batches of it are missing, or it is an old one.
func (s *Seat) inboundOf(from, boot string, stream, number uint64) *inbound {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.inbound[from]
	if in != nil && in.boot == boot && in.id >= stream {
		if in.id > stream {
			return nil
		}
		return in
	}
	if number != 1 {
		return nil
	}
	in = &inbound{boot: boot, id: stream, turn: make(chan struct{}, 1), staged: make(map[int]*staged)}
	s.inbound[from] = in
	return in
}

// takeBatch takes the items of a batch and returns the shards that are to be copied anew.
func (s *Seat) takeBatch(v *view, from string, in *inbound, items []item) ([]byte, error) {
	anew := make(map[int]bool)
	var asIs []int
	taken := false
	for _, i := range items {
		if v.owner(i.shard) != from || v.runnerUp(i.shard) != s.self.ID {
			delete(in.staged, i.shard)
			continue // of an earlier view
		}
		stage := in.staged[i.shard]
		switch {
		case i.kind == itemBegin:
			in.staged[i.shard] = &staged{}
			delete(anew, i.shard)
		case i.kind == itemEnd && stage != nil:
			stage.ended = true
		case i.kind == itemRecord && stage != nil:
			stage.records = append(stage.records, i.record)
		case i.kind == itemRecord && s.follows(i.shard, in.id):
			if s.cfg.faults.noCopies {
				continue
			}
			if err := s.cfg.Store.Adopt(i.record); err != nil {
				s.says.warn(from, "a record of a peer cannot be taken", "peer", from, "error", err)
				anew[i.shard] = true
			}
			taken = true
		case i.kind == itemAsIs && stage == nil && (s.follows(i.shard, in.id) || s.handedTo(i.shard, from, v)):
			s.follow(i.shard, in.id)
			asIs = append(asIs, i.shard)
		default:
			anew[i.shard] = true
		}
	}
	whole := make(map[int]*staged)
	for shard, stage := range in.staged {
		if stage.ended {
			whole[shard] = stage
			delete(in.staged, shard)
		}
	}
	if err := s.put(v, whole, claim{v.id.Epoch, asRunnerUp}, in.id); err != nil {
		return nil, err
	}
	if err := s.claim(v, asIs, claim{v.id.Epoch, asRunnerUp}); err != nil {
		return nil, err
	}
	if taken {
		if err := s.commit(); err != nil {
			return nil, err
		}
	}
	var again []byte
	for _, shard := range slices.Sorted(maps.Keys(anew)) {
		again = append(again, byte(shard))
		s.follow(shard, 0)
	}
	return again, nil
}

// follows says whether the copy of a shard has all that came by a stream.
func (s *Seat) follows(shard int, stream uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source[shard] == stream
}

func (s *Seat) follow(shard int, stream uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source[shard] = stream
}

// handedTo says whether this host handed a shard over to a peer in a view.
func (s *Seat) handedTo(shard int, peer string, v *view) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handed[shard] == handing{peer, v.id}
}

// commit has the journal keep what was adopted.
func (s *Seat) commit() error {
	if s.cfg.Keeper == nil {
		return nil
	}
	return s.cfg.Keeper.Commit()
}

func (s *Seat) sync() error {
	if s.cfg.Keeper == nil {
		return nil
	}
	return s.cfg.Keeper.Sync()
}

// put puts copies in their places, while v is the view. Should the host die meanwhile, it does not take them for whole.
func (s *Seat) put(v *view, copies map[int]*staged, c claim, stream uint64) error {
	if len(copies) == 0 {
		return nil
	}
	s.install <- struct{}{}
	defer func() { <-s.install }()
	shards := slices.Sorted(maps.Keys(copies))
	if err := s.claim(v, shards, claim{}); err != nil {
		return err
	}
	for shard, stage := range copies {
		s.follow(shard, 0)
		for _, record := range stage.records {
			if err := s.cfg.Store.Adopt(record); err != nil {
				return fmt.Errorf("take the copy of shard %d: %w", shard, err)
			}
		}
	}
	if err := s.sync(); err != nil { // a claim must not be more durable than its copy
		return err
	}
	if err := s.claim(nil, shards, c); err != nil {
		return err
	}
	for _, shard := range shards {
		s.follow(shard, stream)
	}
	return nil
}

// claim notes and keeps how new copies are, if v is the view or nil.
func (s *Seat) claim(v *view, shards []int, c claim) error {
	if len(shards) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v != nil && s.view() != v {
		return errView
	}
	changed := false
	for _, shard := range shards {
		changed = changed || s.claims[shard] != c
		s.claims[shard] = c
	}
	if !changed {
		return nil
	}
	return s.save(s.view())
}
