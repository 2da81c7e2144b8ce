package resp

import (
	"math"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/store"
)

// unit says how a number means a time.
type unit struct {
	seconds  bool // else milliseconds
	absolute bool // since 1970, else from now
}

// units are the options that set an expiry.
var units = []struct {
	word string
	unit unit
}{
	{"ex", unit{seconds: true}},
	{"px", unit{}},
	{"exat", unit{seconds: true, absolute: true}},
	{"pxat", unit{absolute: true}},
}

func unitOf(arg []byte) (unit, bool) {
	for i := range units {
		if is(arg, units[i].word) {
			return units[i].unit, true
		}
	}
	return unit{}, false
}

// milliseconds returns n in milliseconds, and false when the time that it means has no number.
func (u unit) milliseconds(n int64) (int64, bool) {
	if u.seconds {
		if n > math.MaxInt64/1000 || n < math.MinInt64/1000 {
			return 0, false
		}
		n *= 1000
	}
	return n, u.absolute || n <= math.MaxInt64-time.Now().UnixMilli()
}

// expireIn sets the expiry of a store command to what a client wrote, which must be above 0.
func expireIn(cmd *store.Command, u unit, number []byte, name string) failure {
	n, ok := parseInt(number)
	if !ok {
		return errNotInteger
	}
	if n, ok = u.milliseconds(n); !ok || n <= 0 {
		return invalidExpiry(name)
	}
	u.set(cmd, n)
	return ""
}

// set sets the expiry of a store command to n milliseconds.
func (u unit) set(cmd *store.Command, n int64) {
	if u.absolute {
		cmd.At = n
	} else {
		cmd.TTL = n
	}
}

// past is a moment that is over for every clock: an expiry that removes the value.
const past = 1

// setOrPast is set for a number that may be 0 or less, which is over whatever the time is.
func (u unit) setOrPast(cmd *store.Command, n int64) {
	if n <= 0 {
		u, n = unit{absolute: true}, past
	}
	u.set(cmd, n)
}

// planExpire returns the plan of EXPIRE and its kin: key, time, conditions.
func planExpire(u unit) func(*conn, *call) failure {
	return func(c *conn, q *call) failure {
		n, ok := parseInt(q.args[2])
		if !ok {
			return errNotInteger
		}
		condition, f := expiryCondition(q.args[3:])
		if f != "" {
			return f
		}
		if n, ok = u.milliseconds(n); !ok {
			return invalidExpiry(q.cmd.name)
		}
		cmd := c.add(store.OpExpire, q.args[1])
		cmd.Expiry = condition
		u.setOrPast(cmd, n)
		return ""
	}
}

// expiryCondition reads the options NX, XX, GT and LT.
func expiryCondition(options [][]byte) (store.ExpiryCondition, failure) {
	var nx, xx, gt, lt bool
	for _, o := range options {
		switch {
		case is(o, "nx"):
			nx = true
		case is(o, "xx"):
			xx = true
		case is(o, "gt"):
			gt = true
		case is(o, "lt"):
			lt = true
		default:
			return 0, failure("ERR Unsupported option " + printable(o))
		}
	}
	switch {
	case nx && (xx || gt || lt):
		return 0, errNX
	case gt && lt:
		return 0, errGTLT
	case nx:
		return store.IfNoExpiry, ""
	case gt: // an expiry that is not there is later than any, so XX adds nothing
		return store.IfLater, ""
	case lt && xx:
		return store.IfSoonerExpiry, ""
	case lt:
		return store.IfSooner, ""
	case xx:
		return store.IfExpiry, ""
	}
	return store.AnyExpiry, ""
}

func planPersist(c *conn, q *call) failure {
	c.add(store.OpExpire, q.args[1])
	return ""
}

// replyTTL answers the seconds to the expiry, rounded.
func replyTTL(c *conn, q *call) {
	r := &q.rs[0]
	switch {
	case !r.Found:
		c.w.int(-2)
	case r.N < 0:
		c.w.int(-1)
	default:
		c.w.int((r.N + 500) / 1000)
	}
}

// replyPTTL answers the milliseconds to the expiry.
func replyPTTL(c *conn, q *call) {
	if !q.rs[0].Found {
		c.w.int(-2)
		return
	}
	c.w.int(q.rs[0].N)
}
