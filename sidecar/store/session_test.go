package store

import (
	"fmt"
	"math"
	"testing"
)

// open opens a session; an empty token takes no lock.
func (d *desk) open(id, token string, lease int64) Result {
	return d.do(Command{Op: OpSessionOpen, Key: []byte(id), Token: []byte(token), Lease: lease, WantOld: true, Who: &Who{PID: 7, Script: token + ".php"}})
}

// commit writes a session as c says.
func (d *desk) commit(id string, c Command) Result {
	c.Op, c.Key = OpSessionCommit, []byte(id)
	if c.TTL == 0 {
		c.TTL = 60_000
	}
	return d.do(c)
}

// write commits data under the grant of an open, and releases it.
func (d *desk) write(id, token string, fence uint64, data string) Result {
	return d.commit(id, Command{Token: []byte(token), Fence: fence, Value: []byte(data), Release: true})
}

// peek returns the session's data, or "<missing>".
func (d *desk) peek(id string) string {
	r := d.open(id, "", 0)
	if !r.Found {
		return "<missing>"
	}
	return string(r.Value)
}

func wantRefused(t *testing.T, what string, r Result, why ...Reason) {
	t.Helper()
	if r.Status != Refused {
		t.Errorf("%s: status %d, want refused (%v)", what, r.Status, why)
		return
	}
	for _, w := range why {
		if r.Reason == w {
			return
		}
	}
	t.Errorf("%s: refused because %v, want %v", what, r.Reason, why)
}

func TestSessionCycle(t *testing.T) {
	d := newDesk(t)
	o := d.open("id", "a", 1000)
	if !o.Locked || o.Found || len(o.Value) != 0 || o.Fence == 0 {
		t.Fatalf("the first open: %+v", o)
	}
	if c := d.write("id", "a", o.Fence, "one"); !c.Done || !c.Released {
		t.Fatalf("the commit: %+v", c)
	}
	p := d.open("id", "b", 1000)
	if !p.Locked || !p.Found || string(p.Value) != "one" || p.Fence <= o.Fence {
		t.Fatalf("the second open: %+v after fence %d", p, o.Fence)
	}
}

func TestEmptyDataIsARecord(t *testing.T) {
	d := newDesk(t)
	d.commit("id", Command{Value: nil})
	if r := d.open("id", "", 0); !r.Found || len(r.Value) != 0 {
		t.Errorf("an empty session is read as %+v", r)
	}
	if r := d.do(Command{Op: OpSessionExists, Key: []byte("id")}); !r.Found {
		t.Error("an empty session does not exist")
	}
	if n := d.do(Command{Op: OpStats}).Stats.Sessions; n != 1 {
		t.Errorf("%d sessions are counted, want 1", n)
	}
}

func TestContendedOpenTellsDataHolderAndAFence(t *testing.T) {
	d := newDesk(t)
	a := d.open("id", "a", 5000)
	d.commit("id", Command{Token: []byte("a"), Fence: a.Fence, Value: []byte("x")})
	d.now += 100
	r := d.open("id", "b", 5000)
	if r.Status != Busy || r.Locked || string(r.Value) != "x" || !r.Found {
		t.Errorf("the contended open: %+v", r)
	}
	if h := r.Holder; h == nil || h.Token != "a" || h.Who.PID != 7 || h.Who.Script != "a.php" || h.Since != d.now-100 || h.Fence != a.Fence {
		t.Errorf("its holder: %+v", r.Holder)
	}
	if r.Fence <= a.Fence {
		t.Errorf("it may write with fence %d, which is before the holder's %d", r.Fence, a.Fence)
	}
	// Who waits asks often, maybe from another host.
	r = d.do(Command{Op: OpSessionOpen, Key: []byte("id"), Token: []byte("c"), Lease: 1000})
	if r.Status != Busy || r.Found || len(r.Value) > 0 || r.Holder == nil {
		t.Errorf("the contended open of one who does not want the data: %+v", r)
	}
}

func TestRetriedOpenGetsTheSameGrant(t *testing.T) {
	d := newDesk(t)
	a := d.open("id", "a", 1000)
	d.now += 900
	if again := d.open("id", "a", 1000); !again.Locked || again.Fence != a.Fence {
		t.Errorf("the retry: %+v, want fence %d", again, a.Fence)
	}
	d.now += 900 // the retry began a new lease
	if r := d.open("id", "b", 1000); r.Status != Busy {
		t.Errorf("another is granted the lock within the retry's lease: %+v", r)
	}
}

func TestOpenAfterDestroyIsANewGrant(t *testing.T) {
	d := newDesk(t)
	a := d.open("id", "a", 1000)
	d.do(Command{Op: OpSessionDestroy, Key: []byte("id")}) // by another, who does not hold it
	wantRefused(t, "the write under the old grant", d.commit("id", Command{Token: []byte("a"), Fence: a.Fence}), Destroyed)
	again := d.open("id", "a", 1000)
	if again.Fence <= a.Fence {
		t.Errorf("after the destruction the same token got its old fence %d again", a.Fence)
	}
	if r := d.write("id", "a", again.Fence, "new life"); !r.Done {
		t.Errorf("the write under the new grant: %+v", r)
	}
}

func TestTouch(t *testing.T) {
	d := newDesk(t)
	touch := Command{Touch: true, TTL: 5000}
	if r := d.commit("id", touch); r.Done || r.Status != OK {
		t.Errorf("a touch without a record: %+v", r)
	}
	if d.peek("id") != "<missing>" {
		t.Error("a touch made a record")
	}
	d.commit("id", Command{Value: []byte("x"), TTL: 1000})
	d.now += 999
	if r := d.commit("id", touch); !r.Done {
		t.Errorf("a touch: %+v", r)
	}
	d.now += 4999
	if got := d.peek("id"); got != "x" {
		t.Errorf("within the touch's time the data is %q", got)
	}
	d.now++
	if got := d.peek("id"); got != "<missing>" {
		t.Errorf("after it the data is %q", got)
	}
}

func TestTouchOfAVanishedRecordReleasesNothing(t *testing.T) {
	d := newDesk(t)
	a := d.open("id", "a", 1000)
	r := d.commit("id", Command{Token: []byte("a"), Fence: a.Fence, Touch: true, Release: true})
	if r.Done || r.Released || r.Status != OK {
		t.Errorf("the touch: %+v", r)
	}
	if r := d.open("id", "b", 1000); r.Status != Busy {
		t.Error("the lock is gone, so the data that the client sends next would be written without it")
	}
}

func TestRefusedCommitWithReleaseReleases(t *testing.T) {
	d := newDesk(t)
	a := d.open("id", "a", 1000)
	d.do(Command{Op: OpSessionDestroy, Key: []byte("id")})
	r := d.write("id", "a", a.Fence, "late")
	wantRefused(t, "the write", r, Destroyed)
	if !r.Released {
		t.Error("the refused write kept its lock")
	}
	if r := d.open("id", "b", 1000); !r.Locked {
		t.Errorf("the next open: %+v", r)
	}
}

func TestDestroy(t *testing.T) {
	d := newDesk(t)
	destroy := func(token string) Result {
		return d.do(Command{Op: OpSessionDestroy, Key: []byte("id"), Token: []byte(token)})
	}
	if r := destroy(""); r.Found || r.Status != OK {
		t.Errorf("of a missing session: %+v", r)
	}
	a := d.open("id", "a", 1000)
	d.commit("id", Command{Token: []byte("a"), Fence: a.Fence, Value: []byte("x")})
	if r := destroy("b"); !r.Found || r.Released {
		t.Errorf("by one who does not hold the lock: %+v", r)
	}
	if r := d.open("id", "c", 1000); r.Status != Busy {
		t.Error("it ended another's lock")
	}
	if r := destroy("a"); r.Found || !r.Released {
		t.Errorf("by the holder: %+v", r)
	}
	if r := d.open("id", "c", 1000); !r.Locked || r.Found {
		t.Errorf("the next open: %+v", r)
	}
}

func TestTombstoneLastsAnHourAtLeast(t *testing.T) {
	d := newDesk(t)
	a := d.open("id", "a", 10*remember)
	free := d.open("id", "", 0)
	d.do(Command{Op: OpSessionDestroy, Key: []byte("id")})
	for _, later := range []int64{0, 1, remember - 2} {
		d.now += later
		d.sweep()
		wantRefused(t, "the holder", d.commit("id", Command{Token: []byte("a"), Fence: a.Fence}), Destroyed)
		wantRefused(t, "one without a lock", d.commit("id", Command{Fence: free.Fence}), Destroyed)
	}
	if got := d.peek("id"); got != "<missing>" {
		t.Errorf("the destroyed session has %q", got)
	}
}

func TestTombstonesDoNotPileUp(t *testing.T) {
	d := newDesk(t)
	for i := range 100 {
		d.do(Command{Op: OpSessionDestroy, Key: fmt.Appendf(nil, "id%d", i)})
	}
	d.now += remember
	d.sweep()
	d.empty()
}

func TestInnocentLateWriterIsAcceptedForAnHour(t *testing.T) {
	// The lease ran out and nobody else came: swept or not, the write is welcome.
	for _, late := range []int64{0, 1, 60_000, remember - 1} {
		d := newDesk(t)
		a := d.open("id", "a", 1000)
		d.now += 1000 + late
		d.sweep()
		if r := d.write("id", "a", a.Fence, "late"); !r.Done {
			t.Errorf("%d ms after its lease: %+v", late, r)
		}
		if got := d.peek("id"); got != "late" {
			t.Errorf("%d ms after its lease: the data is %q", late, got)
		}
	}
}

func TestWriteAfterTheMemoryIsDroppedIsRefused(t *testing.T) {
	for _, swept := range []bool{false, true} {
		d := newDesk(t)
		a := d.open("id", "a", 1000)
		d.now += 1000 + remember
		if swept {
			d.sweep()
			d.empty()
		}
		wantRefused(t, fmt.Sprintf("the write (swept: %v)", swept), d.write("id", "a", a.Fence, "too late"), Forgotten)
		if got := d.peek("id"); got != "<missing>" {
			t.Errorf("the data is %q (swept: %v)", got, swept)
		}
	}
}

func TestWriteUnderAForgottenGrantIsRefusedWhoeverCameSince(t *testing.T) {
	// B's whole visit is forgotten when A, from before B, comes back; an entry that someone without a
	// lock made meanwhile must not let A in.
	for what, between := range map[string]func(d *desk){
		"a write without a lock": func(d *desk) { d.commit("id", Command{Value: []byte("free")}) },
		"a destruction long ago": func(d *desk) {
			d.do(Command{Op: OpSessionDestroy, Key: []byte("id")})
			d.now += remember + 1
		},
		"nothing": func(*desk) {},
	} {
		d := newDesk(t)
		a := d.open("id", "a", 10)
		d.now += 20
		b := d.open("id", "b", 10)
		d.commit("id", Command{Token: []byte("b"), Fence: b.Fence, Value: []byte("b's"), TTL: 100, Release: true})
		d.now += 200 // B's record has expired
		d.sweep()
		between(d)
		before := d.peek("id")
		wantRefused(t, "after "+what, d.write("id", "a", a.Fence, "stale"), Forgotten, Superseded, Destroyed)
		if got := d.peek("id"); got != before {
			t.Errorf("after %s: the data is %q, it was %q", what, got, before)
		}
	}
}

func TestForgettingOneSessionDoesNotHurtAnother(t *testing.T) {
	// Both ids share a shard. What the shard forgets of one must not refuse the holder of the other.
	d := newDesk(t)
	one, other := "id0", ""
	for i := 1; other == ""; i++ {
		if id := fmt.Sprintf("id%d", i); position([]byte(id))>>positionShift == position([]byte(one))>>positionShift {
			other = id
		}
	}
	a := d.open(one, "a", 1000)
	d.now++
	b := d.open(other, "b", 1000)
	d.do(Command{Op: OpSessionRelease, Key: []byte(other), Token: []byte("b")}) // dropped, and forgotten with a higher fence
	if b.Fence <= a.Fence {
		t.Fatal("the test needs the second grant to be later")
	}
	if r := d.write(one, "a", a.Fence, "mine"); !r.Done {
		t.Errorf("the holder is refused: %v", r.Reason)
	}
}

func TestWriterAfterARestartThatLostTheState(t *testing.T) {
	old := newDesk(t)
	a := old.open("id", "a", 1000)
	d := newDesk(t)
	d.now += 500
	if r := d.commit("id", Command{Token: []byte("a"), Fence: a.Fence, Value: []byte("x")}); !r.Done {
		t.Fatalf("nobody else came, and the write is refused: %v", r.Reason)
	}
	b := d.open("id", "b", 1000)
	if !b.Locked || b.Fence <= a.Fence {
		t.Errorf("the next grant: %+v after fence %d", b, a.Fence)
	}
	wantRefused(t, "the one from before", d.write("id", "a", a.Fence, "y"), Superseded)
}

func TestFenceThatWasNeverIssuedIsRefused(t *testing.T) {
	d := newDesk(t)
	for _, fence := range []uint64{uint64(d.now+1) << stampBits, math.MaxInt64, math.MaxUint64} {
		wantRefused(t, "with a token", d.commit("id", Command{Token: []byte("a"), Fence: fence}), NotHolder)
		wantRefused(t, "without one", d.commit("id", Command{Fence: fence}), NotHolder)
	}
	if r := d.open("id", "b", 1000); r.Fence >= uint64(d.now+1)<<stampBits {
		t.Error("a made-up fence moved the stamps")
	}
}

func TestLapseEndsTheLeaseButNotTheGrant(t *testing.T) {
	d := newDesk(t)
	a := d.open("id", "a", 60_000)
	lapse := Command{Op: OpSessionLapse, Key: []byte("id"), Token: []byte("a")}
	if r := d.do(Command{Op: OpSessionLapse, Key: []byte("id"), Token: []byte("b")}); r.Done {
		t.Error("another's token ended the lease")
	}
	if r := d.do(lapse); !r.Done {
		t.Error("the lease did not end")
	}
	if r := d.do(lapse); r.Done {
		t.Error("it ended twice")
	}
	if r := d.commit("id", Command{Token: []byte("a"), Fence: a.Fence, Value: []byte("x")}); !r.Done {
		t.Errorf("the write of the one whose connection broke: %v", r.Reason)
	}
	b := d.open("id", "b", 60_000)
	if !b.Locked {
		t.Fatalf("the next open: %+v", b)
	}
	wantRefused(t, "the write after another came", d.write("id", "a", a.Fence, "y"), Superseded)
}

func TestForceEndsWhoeversLease(t *testing.T) {
	d := newDesk(t)
	d.open("id", "a", 60_000)
	force := Command{Op: OpSessionForce, Key: []byte("id")}
	if r := d.do(force); !r.Done {
		t.Error("nothing was forced")
	}
	if r := d.do(force); r.Done {
		t.Error("it was forced twice")
	}
	if r := d.open("id", "b", 1000); !r.Locked {
		t.Errorf("the next open: %+v", r)
	}
}

func TestRenewSession(t *testing.T) {
	d := newDesk(t)
	renew := func(token string) Result {
		return d.do(Command{Op: OpSessionRenew, Key: []byte("id"), Token: []byte(token), Lease: 1000})
	}
	wantRefused(t, "without a lock", renew("a"), NotHolder)
	a := d.open("id", "a", 1000)
	d.now += 999
	if r := renew("a"); !r.Done || r.Fence != a.Fence {
		t.Errorf("in time: %+v", r)
	}
	wantRefused(t, "by another", renew("b"), NotHolder)
	d.now += 1500
	if r := renew("a"); !r.Done {
		t.Errorf("late, but nobody else came: %+v", r)
	}
	d.now += 1000
	d.open("id", "b", 1000)
	wantRefused(t, "after another came", renew("a"), NotHolder)
}

func TestHugeTimesDoNotWrapAround(t *testing.T) {
	d := newDesk(t)
	for i, n := range []int64{math.MaxInt64, math.MaxInt64 - d.now, math.MaxInt64 - d.now + 1, 1 << 62} {
		id := fmt.Sprintf("id%d", i)
		a := d.open(id, "a", n)
		if r := d.open(id, "b", 1); r.Status != Busy {
			t.Errorf("a lease of %d ms is over at once", n)
		}
		d.commit(id, Command{Token: []byte("a"), Fence: a.Fence, Value: []byte("x"), TTL: n})
		d.acquire(id, "a", n, false)
		d.set(id, "x", n)
		d.sweep()
		if got := d.peek(id); got != "x" {
			t.Errorf("a session with a ttl of %d ms is %q", n, got)
		}
		if r := d.acquire(id, "b", 1, false); r.Status != Busy {
			t.Errorf("a lock with a lease of %d ms is over at once", n)
		}
		if got := d.get(id); got != "x" {
			t.Errorf("a value with a ttl of %d ms is %q", n, got)
		}
		if left := d.ttl(id); left <= 0 {
			t.Errorf("a ttl of %d ms became %d", n, left)
		}
	}
	d.sound()
}

func TestSessionLeaseOfZeroIsStillHeld(t *testing.T) {
	// The socket never asks for it, but the promise is the store's: one holder.
	d := newDesk(t)
	if a := d.open("id", "a", 0); !a.Locked {
		t.Fatalf("the first open: %+v", a)
	}
	d.sweep()
	if b := d.open("id", "b", 1000); b.Status != Busy {
		t.Errorf("a second is granted the lock: %+v", b)
	}
}

func TestListSessionsShowsRecordsOnly(t *testing.T) {
	d := newDesk(t)
	d.commit("one", Command{Value: []byte("12345"), TTL: 1000})
	d.open("two", "a", 1000) // locked, without a record
	d.do(Command{Op: OpSessionDestroy, Key: []byte("three")})
	d.commit("four", Command{Value: []byte("x"), TTL: 5})
	d.now += 5
	r := d.do(Command{Op: OpListSession, Limit: 10})
	if len(r.Sessions) != 1 {
		t.Fatalf("the list is %+v, want one session", r.Sessions)
	}
	if s := r.Sessions[0]; s.ID != "one" || s.Size != 5 || s.ExpiresAt != start+1000 || s.Locked || s.Space != d.in {
		t.Errorf("its session is %+v", s)
	}
	for i := range 20 {
		d.commit(fmt.Sprintf("many%d", i), Command{Value: []byte("x")})
	}
	if r := d.do(Command{Op: OpListSession, Limit: 7}); len(r.Sessions) != 7 {
		t.Errorf("a list of at most 7 has %d", len(r.Sessions))
	}
}
