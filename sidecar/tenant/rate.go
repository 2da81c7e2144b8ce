package tenant

import (
	"sync/atomic"
	"time"
)

// rate is a token bucket that holds one second's requests, kept as one number: the time at which the bucket will be full again
// (the generic cell rate algorithm of ATM networks, ITU-T I.371). A request moves that time by its share of a
// second, and is served while it is no more than a second away.
type rate struct {
	limit int           // requests a second
	each  time.Duration // a request's share of a second
	full  atomic.Int64  // when the bucket is full, as a time.Duration since the tenant's start
}

func newRate(limit int) *rate { return &rate{limit: limit, each: time.Second / time.Duration(limit)} }

// take counts a request at a time. It returns how long to wait if the bucket is empty, and 0 if the request is to be served. One
// that must be served always is; it is owed for a second at most, so that nobody who only ends things is locked out for longer.
func (r *rate) take(now time.Duration, must bool) (wait time.Duration) {
	for {
		was := r.full.Load()
		full := max(time.Duration(was), now) + r.each
		if over := full - now - time.Second; over > 0 {
			if !must {
				return over
			}
			full = min(full, now+2*time.Second)
		}
		if r.full.CompareAndSwap(was, int64(full)) {
			return 0
		}
	}
}
