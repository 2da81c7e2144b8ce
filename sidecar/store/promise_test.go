package store

import (
	"fmt"
	"testing"
)

// The promises of the README that are decided here. Promise 4 (a dead holder frees at once), 5 (a failure is never a
// guess) and 6 (acknowledged means kept) are decided elsewhere; their tests are there.

func TestPromise1OneHolder(t *testing.T) {
	ends := map[string]func(d *desk, session bool){
		"release by its token": func(d *desk, session bool) {
			op := OpLockRelease
			if session {
				op = OpSessionRelease
			}
			d.do(Command{Op: op, Key: []byte("x"), Token: []byte("a")})
		},
		"expiry of its lease": func(d *desk, _ bool) { d.now++ },
		"force": func(d *desk, session bool) {
			op := OpLockForce
			if session {
				op = OpSessionForce
			}
			d.do(Command{Op: op, Key: []byte("x")})
		},
	}
	for what, end := range ends {
		for _, session := range []bool{true, false} {
			d := newDesk(t)
			ask := func(token string, lease int64) bool {
				if session {
					return d.open("x", token, lease).Locked
				}
				return d.acquire("x", token, lease, false).Status == OK
			}
			if !ask("a", 1000) {
				t.Fatal("the first is not granted a free lock")
			}
			for _, step := range []int64{0, 1, 500, 498} { // up to the last millisecond
				d.now += step
				for _, other := range []string{"b", "aa", "A", ""} {
					if other == "" && !session {
						continue
					}
					if ask(other, 1000) {
						t.Errorf("session %v, %d ms after the grant: token %q was granted it too", session, d.now-start, other)
					}
				}
			}
			end(d, session)
			if !ask("b", 1000) {
				t.Errorf("session %v: after %s the next is not granted it", session, what)
			}
			if ask("a", 1000) {
				t.Errorf("session %v: after %s both have it", session, what)
			}
		}
	}
}

func TestPromise2OnlyTheTokenReleases(t *testing.T) {
	d := newDesk(t)
	d.open("x", "token", 1000)
	d.acquire("x", "token", 1000, false)
	for _, wrong := range []string{"", "t", "tokem", "token ", "TOKEN", "token\x00"} {
		for _, c := range []Command{
			{Op: OpSessionRelease}, {Op: OpSessionLapse}, {Op: OpLockRelease},
			{Op: OpSessionRenew, Lease: 9000}, {Op: OpLockRenew, Lease: 9000},
		} {
			c.Key, c.Token = []byte("x"), []byte(wrong)
			if r := d.do(c); r.Done || r.Released {
				t.Errorf("token %q did %d: %+v", wrong, c.Op, r)
			}
		}
		d.do(Command{Op: OpSessionDestroy, Key: []byte("x"), Token: []byte(wrong)})
		d.commit("x", Command{Token: []byte(wrong), Release: true, Fence: uint64(d.now) << stampBits})
	}
	if r := d.open("x", "other", 1000); r.Status != Busy {
		t.Error("the session's lock is gone")
	}
	if r := d.acquire("x", "other", 1000, false); r.Status != Busy {
		t.Error("the lock is gone")
	}

	// An expired lock never matches, not even its own token.
	d.now += 1000
	for _, c := range []Command{{Op: OpSessionRelease}, {Op: OpLockRelease}, {Op: OpSessionLapse}} {
		c.Key, c.Token = []byte("x"), []byte("token")
		if r := d.do(c); r.Done {
			t.Errorf("an expired lock matched its token: op %d", c.Op)
		}
	}
}

func TestPromise3NoStaleWrite(t *testing.T) {
	type visit struct{ a, b Result }
	for what, c := range map[string]struct {
		between func(d *desk, v *visit)
		why     []Reason // of the refusal; nil: the write is accepted
	}{
		"nobody else came, in time":         {func(d *desk, _ *visit) { d.now += 500 }, nil},
		"nobody else came, late":            {func(d *desk, _ *visit) { d.now += 50_000 }, nil},
		"another asked in vain":             {func(d *desk, _ *visit) { d.open("id", "b", 1000) }, nil},
		"another read without a lock":       {func(d *desk, _ *visit) { d.open("id", "", 0) }, nil},
		"the client's connection broke":     {func(d *desk, _ *visit) { d.do(Command{Op: OpSessionLapse, Key: []byte("id"), Token: []byte("a")}) }, nil},
		"an operator took the lock away":    {func(d *desk, _ *visit) { d.do(Command{Op: OpSessionForce, Key: []byte("id")}) }, nil},
		"another holds it":                  {func(d *desk, v *visit) { d.now += 1000; v.b = d.open("id", "b", 1000) }, []Reason{Superseded}},
		"another held it, and its time too": {func(d *desk, v *visit) { d.now += 1000; d.open("id", "b", 1000); d.now += 5000 }, []Reason{Superseded}},
		"another wrote and left": {func(d *desk, v *visit) {
			d.now += 1000
			v.b = d.open("id", "b", 1000)
			d.write("id", "b", v.b.Fence, "b's")
		}, []Reason{Superseded}},
		"another came and left without a word": {func(d *desk, v *visit) {
			d.now += 1000
			d.open("id", "b", 1000)
			d.do(Command{Op: OpSessionRelease, Key: []byte("id"), Token: []byte("b")})
		}, []Reason{Superseded, Forgotten}},
		"it was destroyed": {func(d *desk, _ *visit) { d.do(Command{Op: OpSessionDestroy, Key: []byte("id")}) }, []Reason{Destroyed}},
		"it was destroyed and begun anew": {func(d *desk, v *visit) {
			d.do(Command{Op: OpSessionDestroy, Key: []byte("id"), Token: []byte("a")})
			v.b = d.open("id", "b", 1000)
			d.write("id", "b", v.b.Fence, "b's")
		}, []Reason{Destroyed}},
	} {
		t.Run(what, func(t *testing.T) {
			d := newDesk(t)
			var v visit
			d.commit("id", Command{Value: []byte("before"), TTL: 100 * remember})
			v.a = d.open("id", "a", 1000)
			c.between(d, &v)
			before := d.peek("id")
			r := d.write("id", "a", v.a.Fence, "a's")
			after := d.peek("id")
			if c.why == nil {
				if !r.Done || after != "a's" {
					t.Errorf("the write is %+v (%v), and the data %q", r, r.Reason, after)
				}
				return
			}
			wantRefused(t, "the write", r, c.why...)
			if after != before {
				t.Errorf("the refused write changed the data from %q to %q", before, after)
			}
		})
	}
}

func TestPromise3NoStaleWriteWithoutALock(t *testing.T) {
	// Who took no lock overwrites, as it chose, but does not bring back what was destroyed after it read.
	d := newDesk(t)
	free := d.open("id", "", 0)
	if r := d.commit("id", Command{Fence: free.Fence, Value: []byte("x")}); !r.Done {
		t.Errorf("the write: %+v", r)
	}
	d.do(Command{Op: OpSessionDestroy, Key: []byte("id")})
	wantRefused(t, "the write after the destruction", d.commit("id", Command{Fence: free.Fence, Value: []byte("y")}), Destroyed)
	again := d.open("id", "", 0)
	if r := d.commit("id", Command{Fence: again.Fence, Value: []byte("z")}); !r.Done {
		t.Errorf("the write of one who read after the destruction: %+v", r)
	}
}

func TestPromise7SessionsAndLocksAreNeverEvicted(t *testing.T) {
	s := New(Limits{Total: 400_000})
	d := &desk{t: t, s: s, now: start, in: Space{Tenant: "default"}}
	for i := range 100 {
		id := fmt.Sprintf("id%d", i)
		o := d.open(id, "t", 10_000_000)
		d.commit(id, Command{Token: []byte("t"), Fence: o.Fence, Value: []byte(id), TTL: 10_000_000})
		d.acquire(id, "t", 0, false)
	}
	for i := range 5000 { // several times what fits
		d.now++
		if r := d.do(Command{Op: OpSet, Key: fmt.Appendf(nil, "k%d", i), Value: make([]byte, 500)}); !r.Done {
			t.Fatalf("value %d: %+v", i, r)
		}
	}
	if st := d.do(Command{Op: OpStats}).Stats; st.Evicted == 0 || st.Values == 0 || st.Bytes > st.Limit {
		t.Errorf("the test evicted nothing, or everything, or too late: %+v", st)
	}
	for range 3 { // nor does any flush touch them
		d.do(Command{Op: OpFlush})
	}
	for i := range 100 {
		id := fmt.Sprintf("id%d", i)
		if got := d.peek(id); got != id {
			t.Errorf("session %s has %q", id, got)
		}
		if r := d.open(id, "other", 1); r.Status != Busy {
			t.Errorf("the lock of session %s is gone", id)
		}
		if r := d.acquire(id, "other", 1, false); r.Status != Busy {
			t.Errorf("lock %s is gone", id)
		}
	}
}
