package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// balance returns what the store says that it uses and what its spaces add up to.
func (d *desk) balance() (told, added int64) {
	for i := range d.s.shards {
		for _, sp := range d.s.shards[i].spaces {
			added += sp.bytes + sp.bucket.bytes
			var values, entries int64
			for _, v := range sp.bucket.values {
				values += v.cost
			}
			for _, x := range sp.sessions {
				entries += x.cost
			}
			for _, l := range sp.locks {
				entries += l.cost
			}
			if values != sp.bucket.bytes || entries != sp.bytes {
				d.t.Fatalf("space %v: values cost %d and %d are charged, the rest costs %d and %d are charged",
					sp.name, values, sp.bucket.bytes, entries, sp.bytes)
			}
		}
	}
	return d.do(Command{Op: OpStats}).Stats.Bytes, added
}

func TestAccountsBalance(t *testing.T) {
	d := newDesk(t)
	rnd := rand.New(rand.NewPCG(5, 5))
	for step := range 20_000 {
		d.now += rnd.Int64N(200)
		c := randomCommand(rnd, d.now)
		if rnd.IntN(3) == 0 {
			c.Value = []byte(strings.Repeat("x", rnd.IntN(3000)))
		}
		if rnd.IntN(500) == 0 {
			c.Op = OpFlush
		}
		d.s.Apply(&c)
		if step%100 == 0 {
			if told, added := d.balance(); told != added {
				t.Fatalf("step %d: %d bytes are told, %d add up", step, told, added)
			}
		}
	}
	for _, bucket := range []string{"k0", "k1"} {
		d.do(Command{Op: OpFlush, Space: Space{"t", bucket}})
	}
	d.now += 100 * remember
	d.sweep()
	for _, l := range d.do(Command{Op: OpListHeld, Limit: 1000}).Locks {
		d.do(Command{Op: OpLockForce, Space: l.Space, Key: []byte(l.Name)})
	}
	d.empty()
	if told, _ := d.balance(); told != 0 {
		t.Errorf("an empty store says that it uses %d bytes", told)
	}
}

func TestFullWithNothingToEvictChangesNothing(t *testing.T) {
	s := New(Limits{Total: 20_000, Eviction: EvictNone})
	d := &desk{t: t, s: s, now: start, in: Space{Tenant: "default"}}
	d.set("k", "v", 0)
	a := d.open("id", "a", 60_000)
	d.commit("id", Command{Token: []byte("a"), Fence: a.Fence, Value: []byte("old")})
	big := make([]byte, 30_000)
	for i := range big {
		big[i] = byte(i * i >> 3) // does not compress to nothing
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(big), func(i, j int) { big[i], big[j] = big[j], big[i] })

	r := d.do(Command{Op: OpSet, Key: []byte("k"), Value: big})
	wantRefused(t, "the set", r, Full)
	if r.N == 0 || r.Stats.Limit != 20_000 {
		t.Errorf("it does not say what is needed and allowed: %+v", r)
	}
	if got := d.get("k"); got != "v" {
		t.Errorf("the value is %q", got)
	}
	w := d.commit("id", Command{Token: []byte("a"), Fence: a.Fence, Value: big, Release: true})
	wantRefused(t, "the session's write", w, Full)
	if got := d.peek("id"); got != "old" {
		t.Errorf("the session is %q", got)
	}
	if !w.Released {
		t.Error("the refused write kept its lock")
	}
}

func TestTenantsHaveLimitsOfTheirOwn(t *testing.T) {
	s := New(Limits{Tenant: 50_000})
	d := &desk{t: t, s: s, now: start}
	for _, tenant := range []string{"small", "greedy"} {
		d.in = Space{Tenant: tenant}
		n := 20
		if tenant == "greedy" {
			n = 2000
		}
		for i := range n {
			d.now++
			if r := d.do(Command{Op: OpSet, Key: fmt.Appendf(nil, "k%d", i), Value: make([]byte, 200)}); !r.Done {
				t.Fatalf("%s, value %d: %+v", tenant, i, r)
			}
		}
	}
	for _, sp := range d.do(Command{Op: OpListSpaces}).Spaces {
		if sp.Space.Tenant == "small" && sp.Values != 20 {
			t.Errorf("the greedy tenant evicted another's values: %d of 20 are left", sp.Values)
		}
		if sp.Bytes > 51_000 {
			t.Errorf("tenant %s uses %d bytes of 50,000", sp.Space.Tenant, sp.Bytes)
		}
	}
}
