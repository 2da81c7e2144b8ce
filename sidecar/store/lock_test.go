package store

import (
	"fmt"
	"testing"
)

// acquire asks for a named lock.
func (d *desk) acquire(name, token string, lease int64, shared bool) Result {
	return d.do(Command{Op: OpLockAcquire, Key: []byte(name), Token: []byte(token), Lease: lease, Shared: shared, Who: &Who{PID: 9}})
}

func (d *desk) unlock(name, token string) bool {
	return d.do(Command{Op: OpLockRelease, Key: []byte(name), Token: []byte(token)}).Done
}

func TestLockCycle(t *testing.T) {
	d := newDesk(t)
	a := d.acquire("l", "a", 1000, false)
	if a.Status != OK || a.Fence == 0 {
		t.Fatalf("the first: %+v", a)
	}
	b := d.acquire("l", "b", 1000, false)
	if b.Status != Busy || b.Holder == nil || b.Holder.Token != "a" || b.Holder.Who.PID != 9 {
		t.Fatalf("the second: %+v", b)
	}
	if !d.unlock("l", "a") || d.unlock("l", "a") {
		t.Fatal("a release must work once")
	}
	if b = d.acquire("l", "b", 1000, false); b.Status != OK || b.Fence <= a.Fence {
		t.Fatalf("the second, after the release: %+v after fence %d", b, a.Fence)
	}
}

func TestLeaseOfALock(t *testing.T) {
	d := newDesk(t)
	d.acquire("l", "a", 1000, false)
	d.now += 999
	if r := d.acquire("l", "b", 1000, false); r.Status != Busy {
		t.Error("the lease ended early")
	}
	d.now++
	if d.unlock("l", "a") {
		t.Error("an expired lock matched its token")
	}
	wantRefused(t, "the renewal of an expired lock",
		d.do(Command{Op: OpLockRenew, Key: []byte("l"), Token: []byte("a"), Lease: 1000}), NotHolder)
	if r := d.acquire("l", "b", 1000, false); r.Status != OK {
		t.Error("the lease did not end")
	}
}

func TestLeaseOfZeroHasNoEnd(t *testing.T) {
	d := newDesk(t)
	d.acquire("l", "a", 0, false)
	d.now += 1000 * remember
	d.sweep()
	if r := d.acquire("l", "b", 0, false); r.Status != Busy || r.Holder.Until != 0 {
		t.Errorf("another was granted it: %+v", r)
	}
	if !d.unlock("l", "a") {
		t.Error("its token does not release it")
	}
	d.empty()
}

func TestRenewLock(t *testing.T) {
	d := newDesk(t)
	renew := func(token string, lease int64) Result {
		return d.do(Command{Op: OpLockRenew, Key: []byte("l"), Token: []byte(token), Lease: lease})
	}
	a := d.acquire("l", "a", 1000, false)
	if r := renew("a", 5000); !r.Done || r.Fence != a.Fence {
		t.Errorf("the renewal: %+v", r)
	}
	wantRefused(t, "by another", renew("b", 5000), NotHolder)
	d.now += 4999
	if r := d.acquire("l", "b", 1, false); r.Status != Busy {
		t.Error("the renewed lease ended early")
	}
	renew("a", 0)
	d.now += remember
	d.sweep()
	if r := d.acquire("l", "b", 1, false); r.Status != Busy {
		t.Error("a renewal for 0 ms did not mean for ever")
	}
	d.sound()
}

func TestSharedLocks(t *testing.T) {
	d := newDesk(t)
	a, b := d.acquire("l", "a", 1000, true), d.acquire("l", "b", 2000, true)
	if a.Status != OK || b.Status != OK || b.Fence <= a.Fence {
		t.Fatalf("two shared holders: %+v, %+v", a, b)
	}
	if r := d.acquire("l", "x", 1000, false); r.Status != Busy {
		t.Error("an exclusive holder came between shared ones")
	}
	d.now += 1000 // a's lease is over, b's is not
	if r := d.acquire("l", "x", 1000, false); r.Status != Busy || r.Holder.Token != "b" {
		t.Errorf("with one shared holder left: %+v", r)
	}
	d.now += 1000
	if r := d.acquire("l", "x", 1000, false); r.Status != OK {
		t.Errorf("with none left: %+v", r)
	}
	if r := d.acquire("l", "a", 1000, true); r.Status != Busy {
		t.Error("a shared holder came beside an exclusive one")
	}
}

func TestConversionsOfALock(t *testing.T) {
	d := newDesk(t)
	a := d.acquire("l", "a", 1000, true)
	exclusive := d.acquire("l", "a", 1000, false)
	if exclusive.Status != OK || exclusive.Fence <= a.Fence { // others may have shared it meanwhile, with higher fences
		t.Errorf("the sole shared holder becomes exclusive: %+v", exclusive)
	}
	if r := d.acquire("l", "b", 1000, true); r.Status != Busy {
		t.Error("it was not exclusive")
	}
	if r := d.acquire("l", "a", 1000, true); r.Status != OK || r.Fence != exclusive.Fence {
		t.Errorf("and shared again: %+v", r)
	}
	if r := d.acquire("l", "b", 1000, true); r.Status != OK {
		t.Error("it was not shared")
	}
	if r := d.acquire("l", "a", 1000, false); r.Status != Busy || r.Holder.Token != "b" {
		t.Errorf("one of two shared holders becomes exclusive: %+v", r)
	}
	if info := d.do(Command{Op: OpLockInfo, Key: []byte("l"), Token: []byte("a")}); !info.Found || !info.Done || !info.Locks[0].Shared || len(info.Locks[0].Holds) != 2 {
		t.Errorf("a refused conversion changed the lock: %+v", info)
	}
}

func TestRetriedAcquireGetsTheSameGrant(t *testing.T) {
	d := newDesk(t)
	a := d.acquire("l", "a", 1000, false)
	d.now += 900
	if r := d.acquire("l", "a", 1000, false); r.Status != OK || r.Fence != a.Fence {
		t.Errorf("the retry: %+v, want fence %d", r, a.Fence)
	}
	if n := len(d.do(Command{Op: OpLockInfo, Key: []byte("l")}).Locks[0].Holds); n != 1 {
		t.Errorf("the retry left %d holds", n)
	}
}

func TestForceReleasesEveryHolder(t *testing.T) {
	d := newDesk(t)
	force := Command{Op: OpLockForce, Key: []byte("l")}
	if r := d.do(force); r.Done {
		t.Error("a lock that nobody holds was forced")
	}
	d.acquire("l", "a", 0, true)
	d.acquire("l", "b", 1000, true)
	if r := d.do(force); !r.Done {
		t.Error("nothing was forced")
	}
	if d.unlock("l", "a") || d.unlock("l", "b") {
		t.Error("a holder was left")
	}
	d.empty()
}

func TestLockInfo(t *testing.T) {
	d := newDesk(t)
	if r := d.do(Command{Op: OpLockInfo, Key: []byte("l")}); r.Found {
		t.Errorf("of a free lock: %+v", r)
	}
	d.acquire("l", "a", 1000, false)
	for token, owned := range map[string]bool{"a": true, "b": false, "": false} {
		r := d.do(Command{Op: OpLockInfo, Key: []byte("l"), Token: []byte(token)})
		if !r.Found || r.Done != owned || len(r.Locks) != 1 || r.Locks[0].Name != "l" {
			t.Errorf("for token %q: %+v", token, r)
		}
	}
	d.now += 1000
	if r := d.do(Command{Op: OpLockInfo, Key: []byte("l")}); r.Found {
		t.Errorf("of an expired lock: %+v", r)
	}
}

func TestListsOfLocks(t *testing.T) {
	d := newDesk(t)
	for i := range 10 {
		d.acquire(fmt.Sprintf("job:%d", i), "a", 1000, false)
		d.acquire(fmt.Sprintf("other:%d", i), "a", 10, false)
	}
	d.open("sid", "a", 1000)
	d.do(Command{Op: OpLockAcquire, Space: Space{Tenant: "t2"}, Key: []byte("job:x"), Token: []byte("a")})
	d.now += 10
	list := d.do(Command{Op: OpListLocks, Match: []byte("job:"), Limit: 100}).Locks
	if len(list) != 10 {
		t.Errorf("the space has %d locks that begin with job:, want 10", len(list))
	}
	if n := len(d.do(Command{Op: OpListLocks, Limit: 100}).Locks); n != 10 {
		t.Errorf("the space lists %d held locks, want 10: the others' leases are over", n)
	}
	if n := len(d.do(Command{Op: OpListLocks, Limit: 3}).Locks); n != 3 {
		t.Errorf("a list of at most 3 has %d", n)
	}
	held := d.s.Apply(&Command{Op: OpListHeld, Now: d.now, Limit: 100}).Locks // of every tenant
	sessions := 0
	for _, l := range held {
		if l.Session {
			sessions++
		}
	}
	if len(held) != 12 || sessions != 1 {
		t.Errorf("%d locks are held, %d of sessions; want 12 and 1", len(held), sessions)
	}
	if n := len(d.do(Command{Op: OpListHeld, Limit: 100}).Locks); n != 11 {
		t.Errorf("the tenant lists %d held locks, want 11", n)
	}
	if n := len(d.do(Command{Op: OpListHeld, Limit: 5}).Locks); n != 5 {
		t.Errorf("a list of at most 5 held locks has %d", n)
	}
}
