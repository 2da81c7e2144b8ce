package cluster

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// TestRequestsOfAVisitorMayGoToAnyHost: each goes to a random host's php-fpm, several at a time, and each counts, whatever the session's size.
func TestRequestsOfAVisitorMayGoToAnyHost(t *testing.T) {
	t.Parallel()
	chance(t)
	g := form(t, plan{php: true})
	for i, x := range []struct {
		name     string
		size     int // what the session has besides its counter
		requests int
	}{
		{"10 B", 0, either(250, 1000)},
		{"600 B", 600 - 60, either(100, 1000)},
		{"20 KiB", 20<<10 - 60, either(100, 1000)},
		{"2 MiB", 2<<20 - 60, either(10, 1000)},
	} {
		t.Run(x.name, func(t *testing.T) {
			g.spray(t, rand.New(rand.NewPCG(theStage.seed, uint64(i))), x.size, x.requests)
		})
	}
	g.report()
}

// spray sends requests of one visitor, and checks that all counted.
func (g *team) spray(t *testing.T, random *rand.Rand, size, requests int) {
	t.Helper()
	const abreast = 5
	id, script := randomHex(), fmt.Sprintf("cluster_count.php?ini[coatcheck.lock_wait]=60&size=%d", size)
	hosts := make(chan *host)
	var clients sync.WaitGroup
	for range abreast {
		clients.Go(func() {
			for h := range hosts {
				if p := h.get(id, script); !p.ok() || p.facts["whole"] != true {
					t.Errorf("%s: %s", h, p)
				}
			}
		})
	}
	for range requests {
		hosts <- g.hosts[random.IntN(len(g.hosts))]
	}
	close(hosts)
	clients.Wait()
	last := g.hosts[0].get(id, script)
	if n := last.number("n"); n != int64(requests)+1 || last.facts["whole"] != true {
		t.Errorf("after %d requests and one more the counter is %d: %s", requests, n, last)
	}
	t.Logf("%d requests counted", requests)
}
