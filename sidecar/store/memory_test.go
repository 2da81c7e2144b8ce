package store

import (
	"fmt"
	"math/rand/v2"
	"runtime"
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
	return d.s.accounts.total.bytes.Load(), added
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

// TestAFurtherHoldNeedsMemoryToo: each holder of a shared lock counts, with its token and names, and what goes leaves the account.
func TestAFurtherHoldNeedsMemoryToo(t *testing.T) {
	d := &desk{t: t, s: New(Limits{Total: 100_000}), now: start, in: Space{Tenant: "default"}}
	hold := func(i int) Command {
		return Command{Op: OpLockAcquire, Key: []byte("l"), Token: fmt.Appendf(nil, "%0200d", i), Shared: true, Who: &Who{Script: strings.Repeat("s", 1000)}}
	}
	n := 0
	for ; ; n++ {
		if r := d.do(hold(n)); r.Status == Refused {
			wantRefused(t, "one hold more", r, Full)
			if r.N < 1200 || r.Stats.Limit != 100_000 {
				t.Errorf("it does not say what is needed and allowed: %+v", r)
			}
			break
		}
		if n > 100 {
			t.Fatal("every hold is granted")
		}
	}
	if n < 60 {
		t.Errorf("only %d holds fit", n)
	}
	if r := d.do(hold(0)); !r.Done { // a retry takes nothing
		t.Errorf("a retry is refused: %+v", r)
	}
	for i := range n {
		if r := d.do(Command{Op: OpLockRelease, Key: []byte("l"), Token: hold(i).Token}); !r.Done {
			t.Errorf("the release of %d: %+v", i, r)
		}
		if told, added := d.balance(); told != added || told > 110_000 {
			t.Errorf("%d bytes are told, %d add up", told, added)
		}
	}
	if told, _ := d.balance(); told != 0 {
		t.Errorf("%d bytes are left", told)
	}
	d.empty()
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

// TestALimitOfATenantsOwn: it stands in place of the one for each tenant, and the refusal says whose it is.
func TestALimitOfATenantsOwn(t *testing.T) {
	d := &desk{t: t, s: New(Limits{Total: 200_000, Tenant: 50_000, Tenants: map[string]int64{"small": 5_000, "free": 0}}), now: start}
	for tenant, limit := range map[string]int64{"small": 5_000, "free": 200_000, "other": 50_000} {
		d.in = Space{Tenant: tenant}
		if st := d.do(Command{Op: OpStats}).Stats; st.Limit != limit {
			t.Errorf("tenant %s has %d bytes, want %d", tenant, st.Limit, limit)
		}
	}
	d.in = Space{Tenant: "small"}
	for i := range 3 {
		id := fmt.Sprint("id", i)
		grant := d.open(id, "t", 1000)
		d.commit(id, Command{Token: []byte("t"), Fence: grant.Fence, Value: make([]byte, 1000)})
	}
	incompressible := make([]byte, 4000)
	rand.NewChaCha8([32]byte{1}).Read(incompressible)
	r := d.do(Command{Op: OpSet, Key: []byte("k"), Value: incompressible})
	wantRefused(t, "a value beside the sessions", r, Full)
	if !r.Stats.Own || r.Stats.Limit != 5_000 {
		t.Errorf("the refusal names the limit of all: %+v", r.Stats)
	}
	d.in = Space{Tenant: "free"}
	if r := d.do(Command{Op: OpSet, Key: []byte("k"), Value: incompressible}); !r.Done {
		t.Errorf("another tenant was refused too: %+v", r)
	}
}

// TestTheLargestTenantMakesRoom: where tenants share one limit, the small cache of one stays while another fills what is left.
func TestTheLargestTenantMakesRoom(t *testing.T) {
	for _, eviction := range []Eviction{EvictLRU, EvictVolatileTTL} {
		d := &desk{t: t, s: New(Limits{Total: 1 << 20, Eviction: eviction}), now: start}
		put := func(tenant string, n int) {
			d.in = Space{Tenant: tenant}
			for i := range n {
				d.now++
				if r := d.do(Command{Op: OpSet, Key: fmt.Appendf(nil, "k%d", i), Value: make([]byte, 500), TTL: 1 << 40}); !r.Done {
					t.Fatalf("%s, value %d: %+v", tenant, i, r)
				}
			}
		}
		put("small", 100)
		put("large", 10_000)
		put("small", 200)
		d.in = Space{Tenant: "small"}
		if st := d.do(Command{Op: OpStats}).Stats; st.Values != 200 || st.Evicted != 0 {
			t.Errorf("eviction %d: %d of 200 are left, %d were evicted", eviction, st.Values, st.Evicted)
		}
		d.in = Space{Tenant: "large"}
		if st := d.do(Command{Op: OpStats}).Stats; st.Evicted == 0 || st.Values == 0 {
			t.Errorf("eviction %d: of the large one's %d are left, %d were evicted", eviction, st.Values, st.Evicted)
		}
	}
}

func TestStatsOfATenant(t *testing.T) {
	d := newDesk(t)
	for i, tenant := range []string{"a", "b"} {
		d.in = Space{Tenant: tenant}
		for n := range i + 1 {
			id := fmt.Sprint("id", n)
			grant := d.open(id, "t", 1000)
			d.commit(id, Command{Token: []byte("t"), Fence: grant.Fence, Value: []byte("v")})
			d.do(Command{Op: OpLockAcquire, Key: []byte(id), Token: []byte("t"), Lease: 1000})
			d.do(Command{Op: OpSet, Key: []byte(id), Value: []byte("v")})
		}
	}
	var sum int64
	for tenant, n := range map[string]int{"a": 1, "b": 2} {
		d.in = Space{Tenant: tenant}
		st := d.do(Command{Op: OpStats}).Stats
		if st.Values != n || st.Sessions != n || st.Locks != 2*n {
			t.Errorf("tenant %s: %+v, want %d of each", tenant, st, n)
		}
		sum += st.Bytes
	}
	all := d.s.Apply(&Command{Op: OpStats, Now: d.now}).Stats
	if all.Values != 3 || all.Sessions != 3 || all.Locks != 6 || all.Bytes != sum {
		t.Errorf("of all: %+v", all)
	}
}

// fullDesk returns a desk whose memory, of limit bytes, is full of small values.
func fullDesk(t *testing.T, limit int64) *desk {
	t.Helper()
	d := newDesk(t)
	d.s = New(Limits{Total: limit})
	for i := 0; d.s.accounts.total.evicted.Load() == 0; i++ {
		d.set(fmt.Sprint("small", i), "x", 0)
	}
	return d
}

func (d *desk) values() int { return d.do(Command{Op: OpStats}).Stats.Values }

func TestAFullCacheMakesRoomForEveryKindOfWrite(t *testing.T) {
	d := fullDesk(t, 1<<20)
	noise := rand.NewChaCha8([32]byte{1})
	for i := range 200 {
		data := make([]byte, 1+i*37)
		noise.Read(data)
		key := func(kind string) []byte { return fmt.Append(nil, kind, i) }
		for _, c := range []Command{
			{Op: OpSet, Key: key("s"), Value: data},
			{Op: OpAppend, Key: key("a"), Value: data, Limit: 1 << 20},
			{Op: OpIncr, Key: key("i"), Delta: 1},
			{Op: OpHashSet, Key: key("h"), Pairs: [][]byte{[]byte("f"), data, data[:1], data}},
			{Op: OpHashIncr, Key: key("j"), Pairs: [][]byte{[]byte("f")}, Delta: 1},
			{Op: OpSessionOpen, Key: key("o"), Token: []byte("t"), Lease: 1000},
		} {
			if r := d.do(c); r.Status != OK {
				t.Fatalf("%d bytes, command %d: %v, %d needed, %+v", len(data), c.Op, r.Reason, r.N, r.Stats)
			}
		}
	}
}

func TestAWriteThatCanNeverFitEvictsNothing(t *testing.T) {
	d := fullDesk(t, 1<<20)
	huge := make([]byte, 2<<20)
	rand.NewChaCha8([32]byte{2}).Read(huge)
	before := d.values()
	for _, c := range []Command{
		{Op: OpSet, Key: []byte("small9"), Value: huge},
		{Op: OpAppend, Key: []byte("small9"), Value: huge, Limit: 4 << 20},
		{Op: OpSessionCommit, Key: []byte("sid"), Token: []byte("t"), Fence: uint64(d.now) << stampBits, Value: huge, TTL: 1000},
		{Op: OpBatch, Batch: []Command{{Op: OpSet, Space: d.in, Key: []byte("small9"), Value: huge}}},
	} {
		r := d.do(c)
		if refusal := append(r.Batch, r)[0]; refusal.Reason != Full {
			t.Errorf("command %d is not refused: %+v", c.Op, refusal)
		}
	}
	if after := d.values(); after != before {
		t.Errorf("%d of %d values are left", after, before)
	}
}

func TestReadsEvictNothing(t *testing.T) {
	d := fullDesk(t, 1<<20)
	before := d.values()
	var batch []Command
	for i := range 5000 {
		batch = append(batch, Command{Op: OpGet, Space: d.in, Key: fmt.Append(nil, "missing", i)})
	}
	d.do(Command{Op: OpBatch, Batch: batch})
	if after := d.values(); after != before {
		t.Errorf("%d of %d values are left", after, before)
	}
}

// heapBytes returns what is in use, without what nobody refers to.
func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestLocksAreAccountedForAsTheyTakeMemory: each with its holder, many holders of one, and those of sessions. The bounds are as wide as those of hashes.
func TestLocksAreAccountedForAsTheyTakeMemory(t *testing.T) {
	const n = 30_000
	for what, c := range map[string]func(i int) Command{
		"plain": func(i int) Command {
			return Command{Op: OpLockAcquire, Key: fmt.Append(nil, "lock", i), Lease: 60_000}
		},
		"endless": func(i int) Command { return Command{Op: OpLockAcquire, Key: fmt.Append(nil, "lock", i)} },
		"shared": func(i int) Command {
			return Command{Op: OpLockAcquire, Key: fmt.Append(nil, "lock", i/1000), Shared: true}
		},
		"session": func(i int) Command {
			return Command{Op: OpSessionOpen, Key: fmt.Append(nil, "id", i), Lease: 60_000}
		},
	} {
		d := newDesk(t)
		before := heapBytes()
		for i := range n {
			c := c(i)
			c.Token = fmt.Appendf(nil, "%032d", i)
			c.Who = &Who{SAPI: strings.Clone("fpm-fcgi"), Script: fmt.Sprintf("/srv/www/shop/%0100d.php", i)}
			d.do(c)
		}
		took := heapBytes() - before
		told := d.do(Command{Op: OpStats}).Stats.Bytes
		if told < took*80/100 || told > took*120/100 {
			t.Errorf("%s: %d bytes are accounted for, they take %d", what, told, took)
		}
		runtime.KeepAlive(d)
	}
}

// The bounds are wide because the race detector takes memory too; without it the estimate is within a tenth.
func TestHashesAreAccountedForAsTheyTakeMemory(t *testing.T) {
	for _, fields := range []int{1, 9, 100} {
		d := newDesk(t)
		before := heapBytes()
		for i := range 200_000 / (fields + 4) {
			for f := range fields {
				d.do(Command{Op: OpHashSet, Key: fmt.Append(nil, "hash", i), Pairs: [][]byte{fmt.Append(nil, "f", f), []byte("value")}})
			}
		}
		took := heapBytes() - before
		if told := d.do(Command{Op: OpStats}).Stats.Bytes; told < took*80/100 || told > took*120/100 {
			t.Errorf("hashes of %d fields: %d bytes are accounted for, they take %d", fields, told, took)
		}
		runtime.KeepAlive(d)
	}
}

func TestMadeUpSessionsLeaveNoTombstones(t *testing.T) {
	d := newDesk(t)
	for i := range 1000 {
		id := fmt.Append(nil, "id", i)
		d.do(Command{Op: OpSessionDestroy, Key: id})
		d.do(Command{Op: OpSessionOpen, Key: id, Token: id, Lease: 1000})
		d.do(Command{Op: OpSessionDestroy, Key: id, Token: id})
	}
	if n := d.do(Command{Op: OpStats}).Stats.Bytes; n != 0 {
		t.Errorf("%d bytes are taken", n)
	}
}
