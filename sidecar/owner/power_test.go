package owner

import (
	"fmt"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// A machine that loses its power loses the last second of what its journal wrote. What was acknowledged is at the runner-up as
// well, and must not be replaced by the older copy of an owner that comes back soon.
func TestALossOfPowerOfOneHostLosesNothingThatHasACopy(t *testing.T) {
	inWorld(t, 2, 1, nil, func(t *testing.T, w *world) {
		time.Sleep(time.Minute)
		set := func(data string) {
			for i := range 60 {
				id := []byte(fmt.Sprint("session ", i))
				v := w.hosts[0].seat.view()
				shard := store.ShardOfKey(id)
				c := &store.Command{
					Op: store.OpSessionCommit, Space: space, Key: id, Value: []byte(data), TTL: time.Hour.Milliseconds(),
				}
				for _, h := range w.hosts {
					if h.id != v.owner(shard) {
						continue
					}
					if r, err := h.seat.decide(t.Context(), v.id, c, shard); err != nil || !r.Done {
						t.Fatalf("commit: %+v %v", r, err)
					}
				}
			}
		}
		set("old")
		victim := w.hosts[0]
		synced := len(victim.journal.records)
		set("new")
		victim.kill()
		victim.journal.records = victim.journal.records[:synced]
		victim.machine = "started anew"
		victim.start()
		time.Sleep(time.Minute)
		v := w.hosts[0].seat.view()
		for i := range 60 {
			id := []byte(fmt.Sprint("session ", i))
			shard := store.ShardOfKey(id)
			for _, h := range w.hosts {
				if h.id != v.owner(shard) {
					continue
				}
				r, err := h.seat.decide(t.Context(), v.id, &store.Command{Op: store.OpSessionOpen, Space: space, Key: id}, shard)
				if err != nil || string(r.Value) != "new" {
					t.Errorf("session %d at %s: %q %v", i, h.id, r.Value, err)
				}
			}
		}
	})
}

func TestACopyInDoubtIsOlderThanOneThatIsNot(t *testing.T) {
	v := newView(7, nil)
	c := &claims{3: {7, asOwner}, 4: {7, asRunnerUp}}
	for machine, doubted := range map[string]bool{"m": false, "another": true, "": true} {
		_, got, err := decodeKept(encodeKept(v, c, "m"), machine)
		if err != nil || got[3].role.inDoubt() != doubted || got[4].role.inDoubt() != doubted {
			t.Errorf("machine %q: %v %v, %v", machine, got[3], got[4], err)
		}
		if doubted && !c[4].newer(got[3]) {
			t.Error("an owner's copy in doubt comes before a runner-up's")
		}
		if !got[3].newer(got[4]) || !got[4].newer(claim{6, asOwner}) {
			t.Error("the order of copies is not that of their epochs and roles")
		}
	}
	if _, got, _ := decodeKept(encodeKept(v, c, durable), "another"); got[3].role.inDoubt() {
		t.Error("what was made durable is in doubt")
	}
}
