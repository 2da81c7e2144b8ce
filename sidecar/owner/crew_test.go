package owner

import (
	"sync"
	"testing"
)

func TestNothingIsStartedWhileAndAfterAllIsWaitedFor(t *testing.T) {
	var c crew
	var starters sync.WaitGroup
	running := make(chan struct{}, 1_000)
	for range 4 {
		starters.Go(func() {
			for range 100 {
				c.Go(func() { running <- struct{}{} })
			}
		})
	}
	c.Wait() // the race detector would complain of a start beside it
	ended := len(running)
	starters.Wait()
	c.Go(func() { t.Error("started after the end") })
	c.group.Wait()
	if len(running) != ended {
		t.Errorf("%d had ended when Wait returned, then %d", ended, len(running))
	}
}
