package store

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestHeapKeepsEachEntryOnceHoweverOftenItsTimeMoves(t *testing.T) {
	d := newDesk(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	due := map[string]int64{}
	for step := range 8_000 {
		key := fmt.Sprintf("k%d", rnd.IntN(300))
		ttl := rnd.Int64N(2000)
		switch rnd.IntN(6) {
		case 0, 1, 2:
			d.set(key, "v", ttl)
			due[key] = d.now + ttl
			if ttl == 0 {
				due[key] = 0
			}
		case 3:
			if d.do(Command{Op: OpExpire, Key: []byte(key), TTL: ttl + 1}).Done {
				due[key] = d.now + ttl + 1
			}
		case 4:
			d.do(Command{Op: OpDel, Key: []byte(key)})
			delete(due, key)
		case 5:
			d.now += rnd.Int64N(50)
			d.sweep()
		}
		for k, at := range due {
			if at != 0 && at <= d.now {
				delete(due, k)
			}
		}
		if step%200 == 0 {
			d.sweep()
			d.sound()
			timed, values := 0, 0
			for i := range d.s.shards {
				for _, sp := range d.s.shards[i].spaces {
					timed += len(sp.bucket.due)
					values += len(sp.bucket.values)
				}
			}
			want := 0
			for _, at := range due {
				if at != 0 {
					want++
				}
			}
			if timed != want || values != len(due) {
				t.Fatalf("step %d: %d values of which %d have a deadline, want %d and %d", step, values, timed, len(due), want)
			}
		}
	}
}

func TestSweepDropsEverythingThatIsOverAndNothingElse(t *testing.T) {
	d := newDesk(t)
	for i := range 2000 {
		d.set(fmt.Sprint(i), "v", int64(i)+1)
	}
	for range 20 {
		d.now += 100
		d.sweep()
		if n, want := d.do(Command{Op: OpStats}).Stats.Values, 2000-int(d.now-start); n != want {
			t.Fatalf("after %d ms %d values are left, want %d", d.now-start, n, want)
		}
	}
	d.empty()
}
