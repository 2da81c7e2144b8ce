package store

import "unsafe"

// hold is a grant: who has a lock and until when. The zero hold is nobody's.
type hold struct {
	token string
	fence uint64
	since int64
	until int64 // end of the lease, ms; 0: none
	bound bool
	ended bool // by a command, before its time: it is not renewed
	who   *Who
}

// is says whether token took this grant, over or not.
func (h *hold) is(token []byte) bool { return h.token != "" && h.token == string(token) }

// live says whether the lock is held at now.
func (h *hold) live(now int64) bool { return h.token != "" && (h.until == 0 || now < h.until) }

const whoSize = int64(unsafe.Sizeof(Who{}))

// cost returns what the hold takes beside its place.
func (h *hold) cost() int64 {
	if h.token == "" {
		return 0
	}
	return costOfHold(len(h.token), h.who)
}

// grantCost returns what the cost of a hold that the command is granted would be.
func grantCost(c *Command) int64 { return costOfHold(len(c.Token), c.Who) }

func costOfHold(token int, who *Who) int64 {
	cost := roundUp(token)
	if who != nil {
		cost += whoSize + roundUp(len(who.SAPI)) + roundUp(len(who.Script))
	}
	return cost
}

// info describes the hold to others.
func (h *hold) info() Hold {
	i := Hold{Token: h.token, Fence: h.fence, Since: h.since, Until: h.until, Bound: h.bound}
	if h.who != nil {
		i.Who = *h.who
	}
	return i
}

// busy is the answer to those whom h keeps out.
func (h *hold) busy() Result {
	i := h.info()
	return Result{Status: Busy, Holder: &i}
}

// leaseEnd returns when a lease that starts now ends; a lease of 0 has no end.
func leaseEnd(now, lease int64) int64 {
	if lease == 0 {
		return 0
	}
	return later(now, lease)
}

// later returns now + d, or the last moment when that does not fit.
func later(now, d int64) int64 {
	if sum := now + d; sum > now {
		return sum
	}
	return 1<<63 - 1
}

// grant makes a hold for the command's token.
func (sh *shard) grant(c *Command) hold {
	return hold{
		token: string(c.Token),
		fence: sh.next(c.Now),
		since: c.Now,
		until: leaseEnd(c.Now, c.Lease),
		bound: c.Bound,
		who:   c.Who,
	}
}
