// Package tenant is what one tenant may take of the daemon: connections, requests, waits, and the bytes of what has
// half arrived and of what nobody reads.
//
// A [Tenant] is shared by all ways in: its socket and the users of the Redis protocol that are its own. So each of its
// quotas is one number, however it is reached. A quota of 0 is none.
//
// # Guarantees
//
//   - A quota of one tenant is never filled, nor freed, by another.
//   - A [Gate] lets tenants that have something to do take turns, whatever the number of their connections.
//   - What ends something is counted and never refused: see [Tenant.Ask].
//
// # Concurrency
//
// Everything here is safe for concurrent use. Without contention nothing takes a lock.
package tenant

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/socket"
)

// Limits are the quotas of a tenant. Whoever has none of something has 0 of it.
type Limits struct {
	UIDs        []int // who may connect to its socket; empty: whoever can open it
	Connections int   // at a time
	Rate        int   // requests a second
	Waiters     int   // requests that wait at a time
	Unfinished  int64 // bytes of requests that have not arrived whole, on its socket
	Commands    int64 // bytes of commands that have not arrived whole, of the Redis protocol
	Unread      int64 // bytes of answers that its clients have not taken
}

// Tenant is one tenant with what it takes now.
type Tenant struct {
	Name        string
	Connections Quota
	Waiters     Quota
	Unfinished  Quota
	Commands    Quota
	Unread      Quota

	uids     []int
	rate     *rate // nil: as many as it likes
	gate     *Gate // nil: nobody takes turns
	line     line  // at the gate; guarded by gate.mu
	start    time.Time
	requests atomic.Int64
	refused  [reasons]atomic.Int64
	logged   [reasons]socket.Seldom
}

// Reason says which quota, or which rule, something was refused for.
type Reason uint8

const (
	UID         Reason = iota // the peer's user is not allowed
	Connections               // too many of them
	Rate                      // too many requests
	Waiters                   // too many requests wait
	Unfinished                // too many bytes of requests that have not arrived whole
	Unread                    // too many bytes of answers that nobody reads
	reasons
)

func (r Reason) String() string {
	return [...]string{"uid", "connections", "rate", "waiters", "unfinished", "unread"}[r]
}

// Reasons lists every reason.
func Reasons() []Reason { return []Reason{UID, Connections, Rate, Waiters, Unfinished, Unread} }

// New returns a tenant whose connections take turns at g, which may be nil.
func New(name string, l Limits, g *Gate) *Tenant {
	t := &Tenant{
		Name: name, uids: l.UIDs, gate: g, start: time.Now(),
		Connections: Quota{limit: int64(l.Connections)}, Waiters: Quota{limit: int64(l.Waiters)},
		Unfinished: Quota{limit: l.Unfinished}, Commands: Quota{limit: l.Commands}, Unread: Quota{limit: l.Unread},
	}
	if l.Rate > 0 {
		t.rate = newRate(l.Rate)
	}
	return t
}

// maxName is the length of the longest name of a tenant.
const maxName = 64

// ValidName says whether a tenant can have the name: it becomes a part of metrics, logs and the names of settings.
func ValidName(name string) bool {
	return name != "" && len(name) <= maxName && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// NameRule says in words what ValidName accepts.
const NameRule = "1 to 64 of a-z A-Z 0-9 _ -"

// Setting returns the name of one of the tenant's settings.
func (t *Tenant) Setting(name string) string { return "tenants." + t.Name + "." + name }

// Allows says whether a process of the user may connect to the tenant's socket.
func (t *Tenant) Allows(uid int) bool { return len(t.uids) == 0 || slices.Contains(t.uids, uid) }

// TooManyRequests is returned for a request above the rate.
type TooManyRequests struct {
	Setting string
	Limit   int
	Wait    time.Duration // until the next one is served
}

func (e *TooManyRequests) Error() string {
	return fmt.Sprintf("more than %d requests a second (%s); the next is served in %d ms", e.Limit, e.Setting, e.Milliseconds())
}

// Milliseconds returns how long to wait, rounded up.
func (e *TooManyRequests) Milliseconds() int64 { return (e.Wait + time.Millisecond - 1).Milliseconds() }

// Ask counts a request. It returns a *TooManyRequests for one above the rate, unless the request ends something: a
// commit or release that is refused would lose what was done, or keep a lock from others. Those make the following wait.
func (t *Tenant) Ask(ends bool) error {
	t.requests.Add(1)
	if t.rate == nil {
		return nil
	}
	wait := t.rate.take(time.Since(t.start), ends)
	if wait == 0 {
		return nil
	}
	t.Refuse(Rate)
	return &TooManyRequests{Setting: t.Setting("requests_per_second"), Limit: t.rate.limit, Wait: wait}
}

// Requests returns how many requests were counted.
func (t *Tenant) Requests() int64 { return t.requests.Load() }

// Refuse counts something that was refused.
func (t *Tenant) Refuse(why Reason) { t.refused[why].Add(1) }

// Refused returns how often something was refused.
func (t *Tenant) Refused(why Reason) int64 { return t.refused[why].Load() }

// Logs says whether a refusal is to be logged now, and how many were not since the last that was.
func (t *Tenant) Logs(why Reason) (unlogged int64, now bool) { return t.logged[why].Now(time.Now()) }

// Quota bounds how much of something is taken at a time. A limit of 0 is none.
type Quota struct {
	limit int64
	used  atomic.Int64
}

// NewQuota returns a quota.
func NewQuota(limit int64) *Quota { return &Quota{limit: limit} }

// Take takes n, if there is so much. The caller gives it back. Who takes at the same time as another may be
// refused though one of the two would fit.
func (q *Quota) Take(n int64) bool {
	if used := q.used.Add(n); q.limit == 0 || used <= q.limit {
		return true
	}
	q.used.Add(-n)
	return false
}

// Give gives n back.
func (q *Quota) Give(n int64) { q.used.Add(-n) }

// Used returns how much is taken.
func (q *Quota) Used() int64 { return q.used.Load() }

// Limit returns how much can be taken; 0: as much as one likes.
func (q *Quota) Limit() int64 { return q.limit }

// Set is the tenants of a daemon, by name. It never changes.
type Set struct{ byName map[string]*Tenant }

// NewSet returns the tenants of these limits, who take turns at g, which may be nil.
func NewSet(limits map[string]Limits, g *Gate) *Set {
	s := &Set{byName: make(map[string]*Tenant)}
	for name, l := range limits {
		s.byName[name] = New(name, l, g)
	}
	return s
}

// Of returns the named tenant, which must be there.
func (s *Set) Of(name string) *Tenant {
	t := s.byName[name]
	if t == nil {
		panic("tenant: nobody made " + name)
	}
	return t
}

// All returns the tenants in the order of their names.
func (s *Set) All() []*Tenant {
	all := slices.Collect(maps.Values(s.byName))
	slices.SortFunc(all, func(a, b *Tenant) int { return strings.Compare(a.Name, b.Name) })
	return all
}
