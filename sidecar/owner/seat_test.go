package owner

import (
	"testing"
	"time"

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
