package owner

import (
	"testing"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

func members(ids ...string) (m []seated) {
	for _, id := range ids {
		m = append(m, seated{ID: id, Boot: id})
	}
	return m
}

func TestTheRunnerUpBecomesTheOwner(t *testing.T) {
	all, without := newView(1, members("a", "b", "c", "d")), newView(2, members("a", "b", "d"))
	moved := 0
	for shard := range store.Shards {
		switch {
		case all.owner(shard) == "c":
			moved++
			if without.owner(shard) != all.runnerUp(shard) {
				t.Errorf("shard %d goes to %s, its runner-up is %s", shard, without.owner(shard), all.runnerUp(shard))
			}
		case without.owner(shard) != all.owner(shard):
			t.Errorf("shard %d goes from %s to %s", shard, all.owner(shard), without.owner(shard))
		}
		if all.owner(shard) == all.runnerUp(shard) {
			t.Errorf("shard %d has %s twice", shard, all.owner(shard))
		}
	}
	if moved < 32 || moved > 96 {
		t.Errorf("one of four owns %d shards", moved)
	}
}

func TestAHostWithoutCopiesIsTheRunnerUpOfWhatItWillOwn(t *testing.T) {
	m := members("a", "b", "c")
	later := newView(2, members("a", "b", "c"))
	m[1].Cold = true
	v := newView(1, m)
	for shard := range store.Shards {
		if v.owner(shard) == "b" {
			t.Errorf("it owns shard %d", shard)
		}
		if later.owner(shard) == "b" && v.runnerUp(shard) != "b" {
			t.Errorf("it will own shard %d, whose runner-up is %s", shard, v.runnerUp(shard))
		}
		if later.owner(shard) != "b" && v.owner(shard) != later.owner(shard) {
			t.Errorf("shard %d is owned by %s in place of %s", shard, v.owner(shard), later.owner(shard))
		}
	}
}

func TestAViewTravels(t *testing.T) {
	v := newView(300, []seated{{ID: "b", Boot: "1", Cold: true}, {ID: "a", Boot: "2"}})
	b := v.append(nil, v.id.Epoch)
	if got := readView(&reader{b: b}, noView); got.id != v.id || got.String() != v.String() {
		t.Errorf("it arrives as %v", got)
	}
	if readView(&reader{b: b}, v) != v {
		t.Error("the known view is made again")
	}
	if other := newView(300, members("a", "b")); other.id == v.id {
		t.Error("another view of the epoch has its identity")
	}
	for n := range b {
		r := &reader{b: b[:n]}
		if readView(r, noView); r.err == nil {
			t.Errorf("cut to %d bytes it is read", n)
		}
	}
}

func FuzzPeersCannotPanicIt(f *testing.F) {
	v := newView(3, members("a", "b"))
	f.Add(byte(kindProposal), v.append(nil, 3))
	f.Add(byte(kindCopy), appendItems(appendUint(appendUint(appendString(v.id.append(nil), "a"), 1), 1), []item{{kind: itemRecord, record: []byte{1, 0}}}))
	f.Add(byte(kindPull), append(appendUint(appendUint(v.id.append(nil), 1), 1), 1, 0, 0))
	f.Add(byte(kindSurvey), v.append(nil, 3))
	w := newWorld(f, 2, 1, nil)
	h := w.hosts[0]
	h.boot = 1
	s, err := New(Config{Peers: h, Store: store.New(store.Limits{}), Clock: h.clock, Disk: h.disk})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Stop)
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		if kind >= firstRouted {
			return
		}
		question := append(append([]byte{kind}, 0, 0), body...)
		_, _ = s.Serve(t.Context(), "b", question)
	})
}
