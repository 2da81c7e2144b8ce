package owner

import (
	"fmt"
	"testing"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/arbiter"
	"github.com/coatcheck/coatcheck/sidecar/store"
)

// BenchmarkDecide compares a get decided by a Seat that owns the key with one decided by arbiter.Local.
func BenchmarkDecide(b *testing.B) {
	key := []byte("key")
	get := func() *store.Command { return &store.Command{Op: store.OpGet, Space: space, Key: key} }
	clock := arbiter.NewBootClock(time.Now()).Now
	b.Run("local", func(b *testing.B) {
		a := arbiter.NewLocal(store.New(store.Limits{}), clock, nil)
		c := get()
		for b.Loop() {
			if _, err := a.Do(b.Context(), c); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("seat", func(b *testing.B) {
		w := newWorld(b, 1, 1, nil)
		h := w.hosts[0]
		h.boot = 1
		s, err := New(Config{Peers: h, Store: store.New(store.Limits{}), Clock: clock, Disk: h.disk})
		if err != nil {
			b.Fatal(err)
		}
		s.Start()
		defer s.Stop()
		c, shard := get(), store.ShardOfKey(key)
		for began := time.Now(); s.served[shard].Load() == 0; {
			if time.Since(began) > 10*time.Second {
				b.Fatal(fmt.Errorf("after 10 s it serves nothing: %w", s.Ready()))
			}
			<-s.viewChanged()
		}
		id := s.view().id
		for b.Loop() {
			if _, err := s.decide(b.Context(), id, c, shard); err != nil {
				b.Fatal(err)
			}
		}
	})
}
