package owner

import "sync"

// crew is the goroutines of a Seat. Questions of peers start some while the Seat stops: those are not started any more.
type crew struct {
	mu    sync.Mutex
	over  bool // guarded by mu
	group sync.WaitGroup
}

// Go runs f beside its caller, unless Wait was called.
func (c *crew) Go(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.group.Go(f)
	}
}

// Wait returns when all have ended. No more are started.
func (c *crew) Wait() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.group.Wait()
}
