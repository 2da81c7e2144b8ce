package owner

import (
	"errors"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

var space = store.Space{Tenant: "t"}

func TestHostsAgreeOnOneView(t *testing.T) {
	for n := 1; n <= 5; n++ {
		inWorld(t, n, 1, nil, func(t *testing.T, w *world) {
			time.Sleep(time.Minute)
			if e := w.hosts[0].seat.view().id.Epoch; e > 2 {
				t.Errorf("%d hosts to whom nothing happens are in epoch %d", n, e)
			}
		})
	}
}

func TestAStoppedSeatDecidesNothing(t *testing.T) {
	inWorld(t, 1, 1, nil, func(t *testing.T, w *world) {
		time.Sleep(time.Minute)
		s := w.hosts[0].seat
		open := func() error {
			key := []byte("id")
			_, err := s.decide(t.Context(), s.view().id, &store.Command{
				Op: store.OpSessionOpen, Space: space, Key: key, Token: []byte("token"), Lease: 1_000,
			}, store.ShardOfKey(key))
			return err
		}
		if err := open(); err != nil {
			t.Fatal(err)
		}
		s.cfg.faults.between = s.stop
		if err := open(); !errors.Is(err, arbiter.ErrUnreachable) {
			t.Errorf("stopped in the middle: %v, want an unknown outcome", err)
		}
		if err := open(); !errors.Is(err, arbiter.ErrNotDecided) {
			t.Errorf("stopped before: %v, want nothing done", err)
		}
	})
}
