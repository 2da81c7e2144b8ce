package store

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func (d *desk) version(key string) uint64 {
	return d.do(Command{Op: OpVersion, Key: []byte(key)}).Version
}

func TestSet(t *testing.T) {
	for _, c := range []struct {
		what   string
		before string // value before; "" : missing
		c      Command
		done   bool
		after  string
		ttl    int64 // after; the value before had 5,000
	}{
		{"of a new key", "", Command{Value: []byte("v"), TTL: 100}, true, "v", 100},
		{"without a ttl", "", Command{Value: []byte("v")}, true, "v", -1},
		{"a negative ttl is none", "", Command{Value: []byte("v"), TTL: -5}, true, "v", -1},
		{"over an old value drops its expiry", "old", Command{Value: []byte("v")}, true, "v", -1},
		{"over an old value, keepttl", "old", Command{Value: []byte("v"), KeepTTL: true}, true, "v", 5000},
		{"of a new key, keepttl", "", Command{Value: []byte("v"), KeepTTL: true}, true, "v", -1},
		{"nx of a new key", "", Command{Value: []byte("v"), If: IfAbsent}, true, "v", -1},
		{"nx of an old key", "old", Command{Value: []byte("v"), If: IfAbsent}, false, "old", 5000},
		{"xx of a new key", "", Command{Value: []byte("v"), If: IfPresent}, false, "<missing>", -2},
		{"xx of an old key", "old", Command{Value: []byte("v"), If: IfPresent, TTL: 7}, true, "v", 7},
		{"ifeq that is equal", "old", Command{Value: []byte("v"), If: IfEqual, Match: []byte("old")}, true, "v", -1},
		{"ifeq that is not", "old", Command{Value: []byte("v"), If: IfEqual, Match: []byte("olD")}, false, "old", 5000},
		{"ifeq of nothing with nothing", "", Command{Value: []byte("v"), If: IfEqual}, false, "<missing>", -2},
		{"of nothing", "old", Command{}, true, "", -1},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := newDesk(t)
			if c.before != "" {
				d.set("k", c.before, 5000)
			}
			c.c.Op, c.c.Key, c.c.WantOld = OpSet, []byte("k"), true
			r := d.do(c.c)
			if r.Done != c.done || r.Found != (c.before != "") || string(r.Value) != c.before {
				t.Errorf("done %v, old value %q (%v)", r.Done, r.Value, r.Found)
			}
			if got := d.get("k"); got != c.after {
				t.Errorf("the value is %q, want %q", got, c.after)
			}
			if got := d.ttl("k"); got != c.ttl {
				t.Errorf("its ttl is %d, want %d", got, c.ttl)
			}
			d.sound()
		})
	}
}

func TestAnExpiredEntryIsAbsent(t *testing.T) {
	for what, c := range map[string]Command{
		"setnx":  {Op: OpSet, Value: []byte("new"), If: IfAbsent},
		"append": {Op: OpAppend, Value: []byte("new"), Limit: 100},
	} {
		d := newDesk(t)
		d.set("k", "old", 10)
		d.now += 10
		c.Key = []byte("k")
		d.do(c)
		if got := d.get("k"); got != "new" {
			t.Errorf("%s: the value is %q", what, got)
		}
		if got := d.ttl("k"); got != -1 {
			t.Errorf("%s: it took over the old expiry: %d", what, got)
		}
	}
	d := newDesk(t)
	for what, c := range map[string]Command{
		"del":       {Op: OpDel},
		"del_if_eq": {Op: OpDel, If: IfEqual, Match: []byte("old")},
		"getdel":    {Op: OpGetDel},
		"expire":    {Op: OpExpire, TTL: 100},
		"xx":        {Op: OpSet, If: IfPresent},
		"ifeq":      {Op: OpSet, If: IfEqual, Match: []byte("old")},
		"incr fail": {Op: OpIncr, Delta: 1, If: IfPresent},
		"get":       {Op: OpGet},
		"ttl":       {Op: OpTTL},
		"version":   {Op: OpVersion},
	} {
		c.Key = []byte(what)
		d.do(Command{Op: OpSet, Key: c.Key, Value: []byte("old"), TTL: 10})
		d.now += 10
		if r := d.do(c); r.Done || r.Found || r.Value != nil {
			t.Errorf("%s found the expired value: %+v", what, r)
		}
	}
}

func TestExpiryIsExactToTheMillisecond(t *testing.T) {
	d := newDesk(t)
	d.set("k", "v", 3)
	for want := int64(3); want > 0; want-- {
		if got := d.ttl("k"); got != want {
			t.Errorf("the ttl is %d, want %d", got, want)
		}
		d.now++
	}
	if got := d.ttl("k"); got != -2 {
		t.Errorf("after its time the ttl is %d", got)
	}
}

func TestDel(t *testing.T) {
	d := newDesk(t)
	del := func(c Command) bool {
		c.Op, c.Key = OpDel, []byte("k")
		return d.do(c).Done
	}
	if del(Command{}) {
		t.Error("a missing key was deleted")
	}
	d.set("k", "token", 0)
	if del(Command{If: IfEqual, Match: []byte("Token")}) || del(Command{If: IfEqual, Match: []byte("toke")}) || del(Command{If: IfEqual}) {
		t.Error("it was deleted although it is not equal")
	}
	if !del(Command{If: IfEqual, Match: []byte("token")}) {
		t.Error("it was not deleted although it is equal")
	}
	d.set("k", "", 0)
	if !del(Command{If: IfEqual}) {
		t.Error("an empty value is not equal to nothing")
	}
	d.empty()
}

func TestComparisonIsOnThePlainBytes(t *testing.T) {
	// Long enough to be compressed, should the store do that.
	long := strings.Repeat("token ", 10_000)
	d := newDesk(t)
	d.set("k", long, 0)
	if d.do(Command{Op: OpDel, Key: []byte("k"), If: IfEqual, Match: []byte(long[:len(long)-1] + "x")}).Done {
		t.Error("it was deleted although its last byte differs")
	}
	if got := d.get("k"); got != long {
		t.Errorf("the value of %d bytes became one of %d", len(long), len(got))
	}
	if !d.do(Command{Op: OpDel, Key: []byte("k"), If: IfEqual, Match: []byte(long)}).Done {
		t.Error("it was not deleted although it is equal")
	}
}

func TestExpireAndPersist(t *testing.T) {
	d := newDesk(t)
	expire := func(key string, c Command) bool {
		c.Op, c.Key = OpExpire, []byte(key)
		return d.do(c).Done
	}
	if expire("k", Command{TTL: 100}) || expire("k", Command{}) {
		t.Error("a missing key has an expiry")
	}
	d.set("k", "v", 0)
	if expire("k", Command{}) {
		t.Error("a key without an expiry was persisted")
	}
	if !expire("k", Command{TTL: 100}) || d.ttl("k") != 100 {
		t.Errorf("after expire 100 the ttl is %d", d.ttl("k"))
	}
	if expire("k", Command{TTL: 7, If: IfEqual, Match: []byte("w")}) || d.ttl("k") != 100 {
		t.Error("an unequal value was given an expiry")
	}
	if !expire("k", Command{TTL: 7, If: IfEqual, Match: []byte("v")}) || d.ttl("k") != 7 {
		t.Error("an equal value was not given an expiry")
	}
	if !expire("k", Command{}) || d.ttl("k") != -1 {
		t.Errorf("after persist the ttl is %d", d.ttl("k"))
	}
	d.now += remember
	d.sweep()
	if got := d.get("k"); got != "v" {
		t.Errorf("the persisted value is %q", got)
	}
	d.sound()
}

func TestIncr(t *testing.T) {
	floor := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		what   string
		before string // "" : missing
		c      Command
		n      int64
		after  string
		why    Reason
	}{
		{"a missing key starts at 0", "", Command{Delta: 5}, 5, "5", NoReason},
		{"downwards", "", Command{Delta: -5}, -5, "-5", NoReason},
		{"by nothing", "7", Command{}, 7, "7", NoReason},
		{"a negative number", "-3", Command{Delta: 1}, -2, "-2", NoReason},
		{"to the greatest", "9223372036854775806", Command{Delta: 1}, math.MaxInt64, "9223372036854775807", NoReason},
		{"above the greatest", "9223372036854775807", Command{Delta: 1}, 0, "9223372036854775807", Overflow},
		{"to the least", "-9223372036854775807", Command{Delta: -1}, math.MinInt64, "-9223372036854775808", NoReason},
		{"below the least", "-9223372036854775808", Command{Delta: -1}, 0, "-9223372036854775808", Overflow},
		{"by the least", "0", Command{Delta: math.MinInt64}, math.MinInt64, "-9223372036854775808", NoReason},
		{"by the least, below it", "-1", Command{Delta: math.MinInt64}, 0, "-1", Overflow},
		{"from the least by the greatest", "-9223372036854775808", Command{Delta: math.MaxInt64}, -1, "-1", NoReason},
		{"a decrement stops at the floor", "3", Command{Delta: -5, Floor: floor(0)}, 0, "0", NoReason},
		{"and reaches it", "5", Command{Delta: -5, Floor: floor(0)}, 0, "0", NoReason},
		{"above the floor", "9", Command{Delta: -5, Floor: floor(0)}, 4, "4", NoReason},
		{"a floor below zero", "", Command{Delta: -50, Floor: floor(-7)}, -7, "-7", NoReason},
		{"a word", "abc", Command{Delta: 1}, 0, "abc", NotInteger},
		{"a fraction", "1.5", Command{Delta: 1}, 0, "1.5", NotInteger},
		{"a number and more", "12 ", Command{Delta: 1}, 0, "12 ", NotInteger},
		{"a minus", "-", Command{Delta: 1}, 0, "-", NotInteger},
		{"more than 64 bits", "9223372036854775808", Command{Delta: -1}, 0, "9223372036854775808", NotInteger},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := newDesk(t)
			if c.before != "" {
				d.set("k", c.before, 0)
			}
			c.c.Op, c.c.Key = OpIncr, []byte("k")
			r := d.do(c.c)
			if c.why != NoReason {
				wantRefused(t, "the increment", r, c.why)
			} else if r.Status != OK || !r.Found || r.N != c.n {
				t.Errorf("%+v, want %d", r, c.n)
			}
			if got := d.get("k"); got != c.after {
				t.Errorf("the value is %q, want %q", got, c.after)
			}
		})
	}
}

func TestIncrOfAnEmptyValueIsRefused(t *testing.T) {
	d := newDesk(t)
	d.set("k", "", 0)
	wantRefused(t, "it", d.do(Command{Op: OpIncr, Key: []byte("k"), Delta: 1}), NotInteger)
}

func TestIncrTTLIsForANewKeyOnly(t *testing.T) {
	d := newDesk(t)
	incr := func(ttl int64) { d.do(Command{Op: OpIncr, Key: []byte("k"), Delta: 1, TTL: ttl}) }
	incr(1000)
	d.now += 400
	incr(9999)
	if got := d.ttl("k"); got != 600 {
		t.Errorf("the second increment made the ttl %d, want the first one's 600", got)
	}
	d.now += 600
	incr(50)
	if got, left := d.get("k"), d.ttl("k"); got != "1" || left != 50 {
		t.Errorf("after the expiry the counter is %s with a ttl of %d, want 1 and 50", got, left)
	}
}

func TestIncrOfMissingThatMustExist(t *testing.T) {
	d := newDesk(t)
	if r := d.do(Command{Op: OpIncr, Key: []byte("k"), Delta: 1, If: IfPresent}); r.Found || r.Status != OK {
		t.Errorf("%+v", r)
	}
	d.empty()
}

func TestAppend(t *testing.T) {
	d := newDesk(t)
	add := func(s string, limit int) Result {
		return d.do(Command{Op: OpAppend, Key: []byte("k"), Value: []byte(s), Limit: limit})
	}
	if r := add("ab", 5); r.N != 2 {
		t.Errorf("to nothing: %+v", r)
	}
	d.do(Command{Op: OpExpire, Key: []byte("k"), TTL: 1000})
	if r := add("cde", 5); r.N != 5 || d.get("k") != "abcde" || d.ttl("k") != 1000 {
		t.Errorf("to something: %+v, %q, ttl %d", r, d.get("k"), d.ttl("k"))
	}
	if r := add("f", 5); r.Reason != TooLong || r.N != 6 || d.get("k") != "abcde" {
		t.Errorf("beyond the limit: %+v, %q", r, d.get("k"))
	}
}

func TestAppendToNothingIsBoundedToo(t *testing.T) {
	d := newDesk(t)
	wantRefused(t, "a first part above the limit", d.do(Command{Op: OpAppend, Key: []byte("k"), Value: []byte("abcdef"), Limit: 5}), TooLong)
	d.empty()
}

func TestGetDel(t *testing.T) {
	d := newDesk(t)
	d.set("k", "v", 100)
	if r := d.do(Command{Op: OpGetDel, Key: []byte("k")}); !r.Found || string(r.Value) != "v" {
		t.Errorf("%+v", r)
	}
	if r := d.do(Command{Op: OpGetDel, Key: []byte("k")}); r.Found {
		t.Errorf("again: %+v", r)
	}
	d.empty()
}

func TestVersionsGrow(t *testing.T) {
	d := newDesk(t)
	last := d.version("k")
	if last == 0 {
		t.Error("the version of a missing key is 0, which asks for any")
	}
	grows := func(what string, change func()) {
		t.Helper()
		change()
		now := d.version("k")
		if now <= last {
			t.Errorf("%s: version %d after %d", what, now, last)
		}
		last = now
	}
	grows("a write", func() { d.set("k", "v", 0) })
	grows("the same write", func() { d.set("k", "v", 0) })
	grows("an increment", func() { d.set("k", "1", 0); d.do(Command{Op: OpIncr, Key: []byte("k"), Delta: 1}) })
	grows("an append", func() { d.do(Command{Op: OpAppend, Key: []byte("k"), Value: []byte("x"), Limit: 10}) })
	grows("a deletion", func() { d.do(Command{Op: OpDel, Key: []byte("k")}) })
	grows("a write after it", func() { d.set("k", "v", 10) })
	grows("an expiry", func() { d.now += 10 })
	grows("a write in the moment of the expiry", func() { d.set("k", "v", 5) })
	grows("an expiry that is noticed late", func() { d.now += 60_000; d.sweep() })
	grows("a write", func() { d.set("k", "v", 0) })
	grows("a getdel", func() { d.do(Command{Op: OpGetDel, Key: []byte("k")}) })
	grows("a write", func() { d.set("k", "v", 0) })
	grows("a flush", func() { d.do(Command{Op: OpFlush}) })

	d.set("k", "v", 1000)
	last = d.version("k")
	for what, c := range map[string]Command{
		"a change of the expiry":  {Op: OpExpire, TTL: 5000},
		"a read":                  {Op: OpGet},
		"a set that did not":      {Op: OpSet, If: IfAbsent},
		"a deletion that did not": {Op: OpDel, If: IfEqual, Match: []byte("w")},
		"a refused increment":     {Op: OpIncr, Delta: 1},
		"persist":                 {Op: OpExpire},
	} {
		c.Key = []byte("k")
		d.do(c)
		if now := d.version("k"); now != last {
			t.Errorf("%s changed the version", what)
		}
	}
}

func TestVersionDoesNotDependOnWhenAnExpiryIsNoticed(t *testing.T) {
	a, b := newDesk(t), newDesk(t)
	for _, d := range []*desk{a, b} {
		d.set("k", "v", 10)
		d.now += 10
	}
	a.sweep()
	b.now += 500
	b.sweep()
	if x, y := a.version("k"), b.version("k"); x != y {
		t.Errorf("noticed at once it is %d, noticed late %d", x, y)
	}
}

func TestVersionTellsTheTimeLeft(t *testing.T) {
	d := newDesk(t)
	if r := d.do(Command{Op: OpVersion, Key: []byte("k")}); r.N != -1 || r.Found {
		t.Errorf("of a missing key: %+v", r)
	}
	d.set("k", "v", 70)
	if r := d.do(Command{Op: OpVersion, Key: []byte("k")}); r.N != 70 || string(r.Value) != "v" {
		t.Errorf("of one with an expiry: %+v", r)
	}
}

func TestFlushIsOneBucketsAndValuesOnly(t *testing.T) {
	d := newDesk(t)
	one, two := Space{"default", "one"}, Space{"default", "two"}
	set := func(in Space, key string) {
		d.do(Command{Op: OpSet, Space: in, Key: []byte(key), Value: []byte("v"), TTL: 1000})
	}
	for i := range 500 {
		set(one, fmt.Sprint(i))
		set(two, fmt.Sprint(i))
	}
	d.do(Command{Op: OpSessionCommit, Space: one, Key: []byte("sid"), Value: []byte("s"), TTL: 1000})
	d.do(Command{Op: OpSessionOpen, Space: one, Key: []byte("sid"), Token: []byte("t"), Lease: 1000})
	d.do(Command{Op: OpLockAcquire, Space: one, Key: []byte("l"), Token: []byte("t")})

	d.do(Command{Op: OpFlush, Space: one})
	if n := d.do(Command{Op: OpStats}).Stats.Values; n != 500 {
		t.Errorf("%d values are left, want the other bucket's 500", n)
	}
	if r := d.do(Command{Op: OpSessionOpen, Space: one, Key: []byte("sid"), Token: []byte("u"), Lease: 1, WantOld: true}); r.Status != Busy || !r.Found {
		t.Errorf("the flush touched a session: %+v", r)
	}
	if r := d.do(Command{Op: OpLockAcquire, Space: one, Key: []byte("l"), Token: []byte("u")}); r.Status != Busy {
		t.Error("the flush touched a lock")
	}
	d.sound()
	for i := range 500 { // the flushed bucket works on
		set(one, fmt.Sprint(i))
	}
	if n := len(d.do(Command{Op: OpScan, Space: one, Limit: 10_000}).Keys); n != 500 {
		t.Errorf("the flushed bucket got %d values since, want 500", n)
	}
	d.sound()
}

// scanAll scans a bucket in steps of limit and counts how often it got each key. between runs after each step.
func (d *desk) scanAll(prefix string, limit int, between func()) map[string]int {
	d.t.Helper()
	seen := map[string]int{}
	var cursor uint64
	for steps := 0; ; steps++ {
		r := d.do(Command{Op: OpScan, Match: []byte(prefix), Cursor: cursor, Limit: limit})
		for _, key := range r.Keys {
			seen[key]++
		}
		if cursor = r.Cursor; cursor == 0 {
			return seen
		}
		if steps > 100_000 {
			d.t.Fatal("the scan does not end")
		}
		between()
	}
}

func TestScanReturnsWhatIsThereThroughoutExactlyOnce(t *testing.T) {
	for _, limit := range []int{1, 7, 100, 1000} {
		d := newDesk(t)
		for i := range 3000 {
			d.set(fmt.Sprintf("stay%d", i), "v", 0)
			d.set(fmt.Sprintf("go%d", i), "v", 0)
		}
		next := 0
		seen := d.scanAll("", limit, func() { // others come and go meanwhile
			for range min(20, 3000-next) {
				d.do(Command{Op: OpDel, Key: fmt.Appendf(nil, "go%d", next)})
				d.set(fmt.Sprintf("come%d", next), "v", 0)
				next++
			}
		})
		for i := range 3000 {
			if n := seen[fmt.Sprintf("stay%d", i)]; n != 1 {
				t.Fatalf("limit %d: stay%d was returned %d times", limit, i, n)
			}
		}
		for key, n := range seen {
			if n != 1 {
				t.Fatalf("limit %d: %s was returned %d times", limit, key, n)
			}
		}
	}
}

func TestScanOfAPrefix(t *testing.T) {
	d := newDesk(t)
	for i := range 2000 {
		d.set(fmt.Sprintf("a:%d", i), "v", 0)
		d.set(fmt.Sprintf("b:%d", i), "v", 0)
	}
	d.set("a:", "v", 0)
	d.set("a:gone", "v", 5)
	d.now += 5
	seen := d.scanAll("a:", 50, func() {})
	if len(seen) != 2001 {
		t.Errorf("%d keys begin with a:, want 2001", len(seen))
	}
	if n := len(d.scanAll("none", 50, func() {})); n != 0 {
		t.Errorf("%d keys begin with none", n)
	}
}

func TestScanStepIsBounded(t *testing.T) {
	d := newDesk(t)
	for i := range 20_000 {
		d.set(fmt.Sprint(i), "v", 0)
	}
	r := d.do(Command{Op: OpScan, Limit: 10})
	if len(r.Keys) != 10 || r.Cursor == 0 {
		t.Errorf("a step for 10 of 20,000 keys returned %d, cursor %d", len(r.Keys), r.Cursor)
	}
	if r.Cursor > math.MaxInt64 {
		t.Errorf("cursor %d does not fit in PHP's integer", r.Cursor)
	}
	// Looking for a needle must not walk the whole haystack in one step.
	if r := d.do(Command{Op: OpScan, Match: []byte("needle"), Limit: 10}); r.Cursor == 0 {
		t.Error("a step that found nothing looked at all 20,000 keys")
	}
}
