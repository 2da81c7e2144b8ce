package owner

import "github.com/coatcheck/coatcheck/sidecar/store"

// itemKind says what an item of a copy is.
type itemKind byte

const (
	itemRecord itemKind = iota + 1 // a record of the shard
	itemBegin                      // what follows, up to the end, replaces the copy
	itemEnd
	itemAsIs // the copy is whole as the receiver has it: it got all records up to here, or handed the shard over
	itemTail // what follows, up to the end, completes the copy
)

// item is a part of a copy of a shard, in the order in which parts must be taken.
type item struct {
	kind   itemKind
	shard  int
	record []byte
	ticket uint64 // of the stream's; 0: none
}

// itemOverhead is about what an item takes beside its record.
const itemOverhead = 64

func (i *item) size() int { return len(i.record) + itemOverhead }

func (i *item) append(b []byte) []byte {
	b = append(b, byte(i.kind), byte(i.shard))
	if i.kind == itemRecord {
		b = appendString(b, i.record)
	}
	return b
}

// appendItems encodes items with their count before them.
func appendItems(b []byte, items []item) []byte {
	b = appendUint(b, uint64(len(items)))
	for i := range items {
		b = items[i].append(b)
	}
	return b
}

func readItems(r *reader) []item {
	items := make([]item, 0, r.count(2))
	for range cap(items) {
		i := item{kind: itemKind(r.byte()), shard: int(r.byte())}
		switch {
		case i.kind == itemRecord:
			i.record = r.bytes()
			if r.err == nil && store.ShardOf(i.record) != i.shard {
				r.fail("a record is of another shard")
			}
		case i.kind < itemRecord || i.kind > itemTail:
			r.fail("a part is unknown")
		}
		if r.err != nil {
			return nil
		}
		items = append(items, i)
	}
	return items
}

// cut returns how many items make up about size bytes: one at least, if there is one.
func cut(items []item, size int) int {
	for n := range items {
		if size -= items[n].size(); size < 0 {
			return max(n, 1)
		}
	}
	return len(items)
}

// image returns a copy of a shard as items.
func (s *Seat) image(shard int) []item {
	items := []item{{kind: itemBegin, shard: shard}}
	s.cfg.Store.Copy(shard, func(record []byte) {
		items = append(items, item{kind: itemRecord, shard: shard, record: append([]byte(nil), record...)})
	})
	return append(items, item{kind: itemEnd, shard: shard})
}
