package owner

import "sync/atomic"

// gate is passed by many at a time until somebody closes it, who then waits until they are through. Nobody waits to pass: who finds it
// closed is told so. No mutex is held by those inside, so they may be stopped for a while and the others see time pass.
type gate struct {
	// inside is how many are inside, less shut while the gate is closed.
	inside  atomic.Int64
	drained chan struct{} // receives when the last one leaves a closed gate

	_ [48]byte // gates of neighbouring shards share no cache line
}

// shut is more than can ever be inside.
const shut = int64(1) << 40

func (g *gate) init() { g.drained = make(chan struct{}, 1) }

// enter returns false when the gate is closed. Who got true leaves.
func (g *gate) enter() bool {
	if g.inside.Add(1) > 0 {
		return true
	}
	g.leave()
	return false
}

func (g *gate) leave() {
	if g.inside.Add(-1) == -shut {
		select {
		case g.drained <- struct{}{}:
		default:
		}
	}
}

// close lets nobody in and returns when nobody is inside. Only one may close a gate at a time, and opens it.
func (g *gate) close() {
	for left := g.inside.Add(-shut); left != -shut; left = g.inside.Load() {
		<-g.drained
	}
	select { // who was turned away may have left a signal
	case <-g.drained:
	default:
	}
}

func (g *gate) open() { g.inside.Add(shut) }
