package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// start is a time like any other, in milliseconds since 1970.
const start = int64(1_800_000_000_000)

// desk is a store with a time and a space of its own.
type desk struct {
	t   testing.TB
	s   *Store
	now int64
	in  Space
}

func newStore() *Store { return New(Limits{}) }

func newDesk(t testing.TB) *desk {
	return &desk{t: t, s: newStore(), now: start, in: Space{Tenant: "default"}}
}

// do applies a command at the desk's time and in its space.
func (d *desk) do(c Command) Result {
	c.Now = d.now
	if c.Space == (Space{}) {
		c.Space = d.in
	}
	return d.s.Apply(&c)
}

func (d *desk) sweep() (dropped int64) {
	for shard := range uint64(Shards) {
		dropped += d.do(Command{Op: OpSweep, Cursor: shard, Limit: math.MaxInt}).N
	}
	return dropped
}

// empty fails the test unless the store holds nothing at all.
func (d *desk) empty() {
	d.t.Helper()
	for i := range d.s.shards {
		sh := &d.s.shards[i]
		if len(sh.spaces)+len(sh.due) > 0 {
			d.t.Fatalf("shard %d still has %d spaces, %d deadlines", i, len(sh.spaces), len(sh.due))
		}
	}
}

// sound fails the test unless every heap is in order and its entries know their places.
func (d *desk) sound() {
	d.t.Helper()
	check := func(h deadlines, what string) {
		for i, p := range h {
			w := p.when()
			if w.index != i+1 || w.at == 0 {
				d.t.Fatalf("%s: the entry at %d thinks that it is at %d, due %d", what, i, w.index-1, w.at)
			}
			if i > 0 && h[(i-1)/2].when().at > w.at {
				d.t.Fatalf("%s: the entry at %d is due before the one above it", what, i)
			}
		}
	}
	for i := range d.s.shards {
		sh := &d.s.shards[i]
		check(sh.due, fmt.Sprintf("shard %d", i))
		for name, sp := range sh.spaces {
			check(sp.bucket.due, fmt.Sprintf("shard %d, bucket %q", i, name.Bucket))
			if len(sp.bucket.values)+len(sp.sessions)+len(sp.locks) == 0 {
				d.t.Fatalf("shard %d keeps the empty space %v", i, name)
			}
		}
	}
}

func (d *desk) set(key, value string, ttl int64) {
	d.t.Helper()
	if r := d.do(Command{Op: OpSet, Key: []byte(key), Value: []byte(value), TTL: ttl}); !r.Done {
		d.t.Fatalf("set %q: not done", key)
	}
}

// get returns the key's value, or "<missing>".
func (d *desk) get(key string) string {
	r := d.do(Command{Op: OpGet, Key: []byte(key)})
	if !r.Found {
		return "<missing>"
	}
	return string(r.Value)
}

func (d *desk) ttl(key string) int64 {
	r := d.do(Command{Op: OpTTL, Key: []byte(key)})
	if !r.Found {
		return -2
	}
	return r.N
}

func TestResultsDependOnCommandsAlone(t *testing.T) {
	// Two stores that get the same commands give the same results, fences and versions included.
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		a, b := newStore(), newStore()
		now := start
		for step := range 1000 {
			now += rnd.Int64N(3) * rnd.Int64N(20_000)
			c := randomCommand(rnd, now)
			first, second := c, c
			ra, rb := a.Apply(&first), b.Apply(&second)
			if !reflect.DeepEqual(ra, rb) {
				t.Fatalf("seed %d, step %d: %+v\nfirst store:  %+v\nsecond store: %+v", seed, step, c, ra, rb)
			}
		}
	}
}

// randomCommand makes a command on one of a few keys, whose result depends on no order of a map.
func randomCommand(rnd *rand.Rand, now int64) Command {
	word := func(n int) []byte { return fmt.Appendf(nil, "k%d", rnd.IntN(n)) }
	floor := rnd.Int64N(5)
	c := Command{
		Op: Op(rnd.IntN(int(OpVersion) + 1)), Now: now, Space: Space{Tenant: "t", Bucket: string(word(2))}, Key: word(5),
		Token: word(4), Lease: 1 + rnd.Int64N(30_000), TTL: 1 + rnd.Int64N(100_000),
		Fence: uint64(now-rnd.Int64N(40_000)) << stampBits, Value: word(3), Match: word(3), Delta: rnd.Int64N(9) - 4,
		If: Condition(rnd.IntN(int(IfEqual) + 1)), Shared: rnd.IntN(2) == 0, Release: rnd.IntN(2) == 0,
		Touch: rnd.IntN(4) == 0, KeepTTL: rnd.IntN(4) == 0, Who: &Who{PID: rnd.IntN(100)}, Limit: 100,
	}
	if c.Op == OpIncr {
		c.Floor = &floor
	}
	if rnd.IntN(10) == 0 {
		c.Op, c.Cursor = OpSweep, rnd.Uint64N(Shards)
	}
	return c
}

func TestStampsGrowWithTheTimeAndWithoutIt(t *testing.T) {
	d := newDesk(t)
	sh := &d.s.shards[0]
	last := uint64(0)
	for range 200_000 { // more than one millisecond has room for
		n := sh.next(d.now)
		if n <= last {
			t.Fatalf("after stamp %d came %d", last, n)
		}
		last = n
	}
	if n := sh.next(d.now - 5); n <= last {
		t.Errorf("when the time went back, stamp %d followed %d", n, last)
	}
	if n := sh.next(d.now + 1000); n != uint64(d.now+1000)<<stampBits {
		t.Errorf("a second later the stamp is %d, want one of that second", n)
	}
}

func TestStampsFitIn63BitsUntil6429(t *testing.T) {
	const year6429 = int64(140_700_000_000_000)
	sh := &newStore().shards[0]
	if n := sh.next(year6429); n > math.MaxInt64 {
		t.Errorf("stamp %d does not fit in 63 bits", n)
	}
}

func TestFencesKeepGrowingOverALossOfTheState(t *testing.T) {
	before := newDesk(t)
	f := before.open("id", "a", 1000).Fence
	after := newDesk(t) // a restart that lost the state, a millisecond later
	after.now++
	if g := after.open("id", "b", 1000).Fence; g <= f {
		t.Errorf("after the restart the fence is %d, before it was %d", g, f)
	}
}

func TestSpacesDoNotMeet(t *testing.T) {
	d := newDesk(t)
	other := Space{Tenant: "other"}
	bucket := Space{Tenant: "default", Bucket: "b"}
	d.set("k", "mine", 0)
	d.open("k", "token", 1000)
	d.acquire("k", "token", 1000, false)
	for _, in := range []Space{other, bucket} {
		if r := d.do(Command{Op: OpGet, Space: in, Key: []byte("k")}); r.Found {
			t.Errorf("space %v sees a value of another", in)
		}
		if r := d.do(Command{Op: OpSessionOpen, Space: in, Key: []byte("k"), Token: []byte("x"), Lease: 1000}); !r.Locked {
			t.Errorf("space %v meets a session lock of another", in)
		}
		if r := d.do(Command{Op: OpLockAcquire, Space: in, Key: []byte("k"), Token: []byte("x")}); r.Status != OK {
			t.Errorf("space %v meets a lock of another", in)
		}
	}
}

func TestValueSessionAndLockOfOneNameDoNotMeet(t *testing.T) {
	d := newDesk(t)
	d.set("x", "value", 0)
	o := d.open("x", "t1", 1000)
	if !o.Locked || o.Found {
		t.Errorf("the session of that name: %+v", o)
	}
	if r := d.acquire("x", "t2", 1000, false); r.Status != OK {
		t.Errorf("the lock of that name: %+v", r)
	}
	d.do(Command{Op: OpSessionDestroy, Key: []byte("x")})
	d.do(Command{Op: OpLockForce, Key: []byte("x")})
	if got := d.get("x"); got != "value" {
		t.Errorf("the value is %q", got)
	}
}

func TestCommandsLeaveNothingBehind(t *testing.T) {
	// Names of keys and buckets that have gone cost nothing: when all time is up, the store is empty.
	d := newDesk(t)
	for i := range 1000 {
		in := Space{Tenant: "t", Bucket: fmt.Sprint(i % 50)}
		key := fmt.Appendf(nil, "k%d", i)
		d.do(Command{Op: OpSet, Space: in, Key: key, Value: key, TTL: 1 + int64(i)})
		d.do(Command{Op: OpSessionOpen, Space: in, Key: key, Token: key, Lease: 5})
		d.do(Command{Op: OpSessionCommit, Space: in, Key: key, Value: key, TTL: int64(i) + 1})
		d.do(Command{Op: OpLockAcquire, Space: in, Key: key, Token: key, Lease: 7})
		d.do(Command{Op: OpSessionDestroy, Space: in, Key: append(key, 'd')}) // there is none: it leaves nothing
	}
	d.sound()
	d.now += remember + 10_000
	if n := d.sweep(); n != 3000 {
		t.Errorf("the sweep dropped %d entries, want 3000", n)
	}
	d.empty()
}

func TestSweepDropsAtMostItsLimitAndOnlyWhatIsOver(t *testing.T) {
	d := newDesk(t)
	key := []byte("k0")
	shard := position(key) >> positionShift
	var mine int
	for i := 0; mine < 20; i++ {
		k := fmt.Appendf(nil, "s%d", i)
		if position(k)>>positionShift == shard {
			ttl := int64(10)
			if mine >= 12 {
				ttl = 10_000
			}
			d.do(Command{Op: OpSet, Key: k, TTL: ttl})
			mine++
		}
	}
	d.now += 10
	for want := range []int64{5, 5, 2, 0} {
		got := d.do(Command{Op: OpSweep, Cursor: shard, Limit: 5}).N
		if wants := []int64{5, 5, 2, 0}; got != wants[want] {
			t.Errorf("sweep %d dropped %d, want %d", want+1, got, wants[want])
		}
	}
}

func TestStatsCountWhatIsThere(t *testing.T) {
	d := newDesk(t)
	d.set("v1", "x", 0)
	d.set("v2", "x", 0)
	d.commit("s1", Command{Value: []byte("x"), TTL: 1000})
	d.open("s2", "a", 100) // a lock without a record
	d.acquire("l1", "a", 100, true)
	d.acquire("l1", "b", 100, true)
	got := d.do(Command{Op: OpStats}).Stats
	if got.Values != 2 || got.Sessions != 1 || got.Locks != 2 {
		t.Errorf("stats %+v, want 2 values, 1 session, 2 locks", got)
	}
	d.now += 100
	if got := d.do(Command{Op: OpStats}).Stats; got.Locks != 0 {
		t.Errorf("%d locks are counted after their leases", got.Locks)
	}
}

func TestTheStoreKeepsNoSliceOfACommand(t *testing.T) {
	d := newDesk(t)
	key, token, value := []byte("key"), []byte("token"), []byte("value")
	spoil := func() {
		for _, b := range [][]byte{key, token, value} {
			copy(b, "XXXXXXXX")
		}
	}
	renewInputs := func() { copy(key, "key"); copy(token, "token"); copy(value, "value") }

	d.do(Command{Op: OpSet, Key: key, Value: value})
	d.do(Command{Op: OpSessionOpen, Key: key, Token: token, Lease: 1000})
	d.do(Command{Op: OpSessionCommit, Key: key, Value: value, TTL: 1000})
	d.do(Command{Op: OpLockAcquire, Key: key, Token: token, Lease: 1000})
	spoil()
	if got := d.get("key"); got != "value" {
		t.Errorf("the value became %q", got)
	}
	renewInputs()
	if r := d.do(Command{Op: OpSessionOpen, Key: key, Token: token, Lease: 1000}); !r.Locked || string(r.Value) != "value" {
		t.Errorf("the session became %+v", r)
	}
	if r := d.do(Command{Op: OpLockRelease, Key: key, Token: token}); !r.Done {
		t.Error("the lock forgot its token")
	}
}

func TestAResultStaysAsItWas(t *testing.T) {
	d := newDesk(t)
	d.set("k", strings.Repeat("a", 100), 0)
	r := d.do(Command{Op: OpGet, Key: []byte("k")})
	d.do(Command{Op: OpAppend, Key: []byte("k"), Value: []byte("b"), Limit: 1000})
	d.set("k", strings.Repeat("c", 100), 0)
	if string(r.Value) != strings.Repeat("a", 100) {
		t.Errorf("what was read became %q", r.Value)
	}
}

func TestReasonsHaveTheNamesOfTheProtocol(t *testing.T) {
	for why, want := range map[Reason]string{
		Superseded: "superseded", Destroyed: "destroyed", Forgotten: "forgotten",
		NotHolder: "not_holder", NotInteger: "not_integer", Overflow: "overflow", TooLong: "too_long",
	} {
		if got := why.String(); got != want {
			t.Errorf("reason %d is called %q, want %q", why, got, want)
		}
	}
}
