package owner

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// ViewID tells views apart. Two views of one epoch have different digests; the zero ViewID is that of the view before the first,
// which has no members.
type ViewID struct{ Epoch, Digest uint64 }

func (v ViewID) String() string { return fmt.Sprintf("%d.%08x", v.Epoch, uint32(v.Digest)) }

func (v ViewID) append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.AppendUvarint(b, v.Epoch), v.Digest)
}

// seated is a member of a view: a host from its start to its end.
type seated struct {
	ID, Boot string
	// Cold says that the host has yet to get its copies: it is the runner-up of the shards that it would own, and owns none.
	Cold bool
}

// view says who owns what: it is never changed.
type view struct {
	id      ViewID
	members []seated // sorted by ID
	places  [store.Shards]place
}

// place is who has a shard, as indices of members; -1: nobody.
type place struct{ owner, runnerUp int16 }

// newView returns the view of members, which it keeps.
func newView(epoch uint64, members []seated) *view {
	slices.SortFunc(members, func(a, b seated) int { return cmp.Compare(a.ID, b.ID) })
	v := &view{members: members}
	v.id = v.identity(epoch)
	warm := slices.ContainsFunc(members, func(m seated) bool { return !m.Cold })
	for shard := range v.places {
		v.places[shard] = placeOf(shard, members, warm)
	}
	return v
}

func (v *view) identity(epoch uint64) ViewID {
	if epoch == 0 {
		return ViewID{}
	}
	return ViewID{epoch, xxhash.Sum64(v.append(nil, epoch))}
}

// placeOf returns the place of a shard by rendezvous hashing: a member that comes or goes moves no shard between two others. warm says
// whether there is a member that is not cold.
func placeOf(shard int, members []seated, warm bool) place {
	order := make([]int16, len(members))
	weights := make([]uint64, len(members))
	for i, m := range members {
		order[i] = int16(i)
		weights[i] = weight(shard, m.ID)
	}
	slices.SortFunc(order, func(a, b int16) int { return cmp.Compare(weights[b], weights[a]) })
	p := place{-1, -1}
	for i, m := range order {
		if p.owner < 0 && !(warm && members[m].Cold) {
			p.owner = m
			order = slices.Delete(order, i, i+1)
			break
		}
	}
	if len(order) > 0 {
		p.runnerUp = order[0]
	}
	return p
}

func weight(shard int, id string) uint64 {
	var h xxhash.Digest
	h.ResetWithSeed(uint64(shard) + 1)
	h.WriteString(id)
	return h.Sum64()
}

// append encodes the view with an epoch.
func (v *view) append(b []byte, epoch uint64) []byte {
	b = binary.AppendUvarint(b, epoch)
	b = binary.AppendUvarint(b, uint64(len(v.members)))
	for _, m := range v.members {
		b = appendString(appendString(b, m.ID), m.Boot)
		b = appendBool(b, m.Cold)
	}
	return b
}

// readView reads what append wrote. It returns known when it is that one.
func readView(r *reader, known *view) *view {
	epoch, n := r.uint(), r.count(3)
	members := make([]seated, 0, n)
	for range n {
		members = append(members, seated{ID: r.string(), Boot: r.string(), Cold: r.bool()})
	}
	if r.err != nil {
		return noView
	}
	if (&view{members: members}).identity(epoch) == known.id {
		return known
	}
	return newView(epoch, members)
}

// noView is the view before the first.
var noView = newView(0, nil)

// String returns the members for people.
func (v *view) String() string {
	var b strings.Builder
	for i, m := range v.members {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(m.ID)
		if m.Cold {
			b.WriteString(" (without copies)")
		}
	}
	return b.String()
}

// ID returns the view's identity.
func (v *view) ID() ViewID { return v.id }

// owner returns the node id of a shard's owner; empty: it has none.
func (v *view) owner(shard int) string { return v.name(v.places[shard].owner) }

// runnerUp returns the node id of a shard's runner-up; empty: it has none.
func (v *view) runnerUp(shard int) string { return v.name(v.places[shard].runnerUp) }

func (v *view) name(member int16) string {
	if member < 0 {
		return ""
	}
	return v.members[member].ID
}

// member returns the member of a node id.
func (v *view) member(id string) (seated, bool) {
	i, found := slices.BinarySearchFunc(v.members, id, func(m seated, id string) int { return cmp.Compare(m.ID, id) })
	if !found {
		return seated{}, false
	}
	return v.members[i], true
}

// has says whether a host that runs as boot is a member.
func (v *view) has(id, boot string) bool {
	m, found := v.member(id)
	return found && m.Boot == boot
}
