package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// notSent are the fields that mean something in one store only.
var notSent = map[string]bool{
	"Command.packed": true, "Result.plain": true,
}

// each calls visit with a copy of a zero T for every field that is sent, in which that field alone is set.
func eachField[T any](t *testing.T, visit func(field string, x *T)) {
	t.Helper()
	typ := reflect.TypeFor[T]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		name := typ.Name() + "." + f.Name
		if notSent[name] {
			continue
		}
		if !f.IsExported() {
			t.Errorf("%s is neither sent nor among those that are not", name)
			continue
		}
		x := new(T)
		fill(t, name, reflect.ValueOf(x).Elem().Field(i))
		visit(name, x)
	}
}

// fill sets v, and all within it, to something.
func fill(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(77)
	case reflect.Uint64:
		v.SetUint(1<<63 + 5)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.String:
		v.SetString("text of " + name)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, name, v.Elem())
	case reflect.Array:
		for i := range v.Len() {
			fill(t, name, v.Index(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		switch v.Type().Elem() {
		case reflect.TypeFor[Command](), reflect.TypeFor[Result]():
			return // zero ones: their fields have a turn of their own
		}
		for i := range v.Len() {
			fill(t, name, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, name+"."+v.Type().Field(i).Name, v.Field(i))
		}
	default:
		t.Fatalf("%s is a %s, which this test cannot fill", name, v.Kind())
	}
}

// same compares what was sent with what came: empty byte strings and lists come as such or as nil.
func same[T any](a, b T) bool { return fmt.Sprintf("%+v", deref(a)) == fmt.Sprintf("%+v", deref(b)) }

// deref replaces pointers by what they point to, so that they compare by it.
func deref(x any) any {
	v := reflect.ValueOf(x)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	out := []any{}
	for i := range v.NumField() {
		f := v.Field(i)
		switch {
		case notSent[v.Type().Name()+"."+v.Type().Field(i).Name]:
		case f.Kind() == reflect.Pointer && !f.IsNil():
			out = append(out, f.Elem().Interface())
		case f.Type() == reflect.TypeFor[[]Command](), f.Type() == reflect.TypeFor[[]Result]():
			for k := range f.Len() {
				out = append(out, deref(f.Index(k).Interface()))
			}
		default:
			out = append(out, f.Interface())
		}
	}
	return out
}

// TestEveryFieldOfACommandTravels fails for one that was added here and not there.
func TestEveryFieldOfACommandTravels(t *testing.T) {
	eachField(t, func(field string, c *Command) {
		if field == "Command.Batch" {
			c.Op = OpBatch
		}
		got, err := DecodeCommand(AppendCommand(nil, c))
		if err != nil || !same(*got, *c) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", field, err, got, c)
		}
		if same(*got, Command{Op: c.Op}) && field != "Command.Op" && field != "Command.Batch" {
			t.Errorf("%s: the comparison does not look at it", field)
		}
	})
}

func TestEveryFieldOfAResultTravels(t *testing.T) {
	eachField(t, func(field string, r *Result) {
		got, err := DecodeResult(AppendResult(nil, r))
		if err != nil || !same(got, *r) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", field, err, got, r)
		}
		if same(got, Result{}) {
			t.Errorf("%s: the comparison does not look at it", field)
		}
	})
}

// TestNilAndEmptyStayApart in the fields of a hash, of which some are missing.
func TestNilAndEmptyStayApart(t *testing.T) {
	r, err := DecodeResult(AppendResult(nil, &Result{Values: [][]byte{nil, {}, []byte("v")}}))
	if err != nil || r.Values[0] != nil || r.Values[1] == nil || string(r.Values[2]) != "v" {
		t.Errorf("%q, %v", r.Values, err)
	}
}

// TestTheLeastSizesAreTrue: counts are believed by them.
func TestTheLeastSizesAreTrue(t *testing.T) {
	if n := len(AppendCommand(nil, &Command{})); n != leastCommand {
		t.Errorf("a command takes %d bytes at least", n)
	}
	if n := len(AppendResult(nil, &Result{})); n != leastResult {
		t.Errorf("a result takes %d bytes at least", n)
	}
	for what, c := range map[string]struct{ is, assumed int }{
		"SpaceInfo":   {len(appendSpaceInfo(nil, &SpaceInfo{})), 6},
		"LockInfo":    {len(appendLockInfo(nil, &LockInfo{})), 5},
		"SessionInfo": {len(appendSessionInfo(nil, &SessionInfo{})), 6},
		"Hold":        {len(appendHold(nil, &Hold{})), 8},
	} {
		if c.is != c.assumed {
			t.Errorf("%s takes %d bytes at least, not %d", what, c.is, c.assumed)
		}
	}
}

// TestWhatNoStoreCanRunIsRefused: a peer's bytes never reach Apply unless it can run them.
func TestWhatNoStoreCanRunIsRefused(t *testing.T) {
	for what, c := range map[string]*Command{
		"an unknown command":          {Op: OpSweep + 1},
		"what only divides the list":  {Op: opSingleKeys},
		"an unknown condition":        {Op: OpSet, If: IfNotEqual + 1},
		"an unknown expiry":           {Op: OpExpire, Expiry: IfSoonerExpiry + 1},
		"a batch in a batch":          {Op: OpBatch, Batch: []Command{{Op: OpBatch, Batch: []Command{{}}}}},
		"an empty batch in a batch":   {Op: OpBatch, Batch: []Command{{Op: OpBatch}}},
		"a list in a batch":           {Op: OpBatch, Batch: []Command{{Op: OpStats}}},
		"a batch of another command":  {Op: OpSet, Batch: []Command{{Op: OpGet}}},
		"a field without a value":     {Op: OpHashSet, Pairs: [][]byte{[]byte("f")}},
		"an increment without fields": {Op: OpHashIncr},
	} {
		if _, err := DecodeCommand(AppendCommand(nil, c)); !errors.Is(err, ErrCommand) {
			t.Errorf("%s: %v", what, err)
		}
	}
	whole := AppendCommand(nil, &Command{Op: OpSet, Key: []byte("k")})
	for n := range whole {
		if _, err := DecodeCommand(whole[:n]); !errors.Is(err, ErrCommand) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	if _, err := DecodeCommand(append(whole, 0)); !errors.Is(err, ErrCommand) {
		t.Errorf("with a byte behind it: %v", err)
	}
	res := AppendResult(nil, &Result{Keys: []string{"k"}})
	for n := range res {
		if _, err := DecodeResult(res[:n]); !errors.Is(err, ErrResult) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	nested := Result{Batch: []Result{{Batch: []Result{{}}}}}
	if _, err := DecodeResult(AppendResult(nil, &nested)); !errors.Is(err, ErrResult) {
		t.Errorf("a batch in a batch: %v", err)
	}
}

// FuzzDecodeCommand: whatever the bytes, they are refused, or are a command that comes out the same again and that a store can run.
func FuzzDecodeCommand(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 9))
	for op := range OpSweep + 1 {
		c := anyCommand(rnd, 1_700_000_000_000)
		c.Op = op
		if op == OpBatch {
			c.Batch = []Command{*anyCommand(rnd, 0), {Op: OpFlush}}
		}
		f.Add(AppendCommand(nil, c))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeCommand(b)
		if err != nil {
			if !errors.Is(err, ErrCommand) {
				t.Fatal(err)
			}
			return
		}
		again, err := DecodeCommand(AppendCommand(nil, c))
		if err != nil || !same(*again, *c) {
			t.Fatalf("%v: %+v became %+v", err, c, again)
		}
		if c.Limit < 1<<20 { // a batch may ask to uncompress much, a list is as long as it is
			New(Limits{}).Apply(c)
		}
	})
}

// FuzzDecodeResult: whatever the bytes, they are refused, or are a result that comes out the same again.
func FuzzDecodeResult(f *testing.F) {
	s := New(Limits{})
	rnd := rand.New(rand.NewPCG(2, 9))
	for i := range int64(300) {
		r := s.Apply(anyCommand(rnd, 1_700_000_000_000+i))
		f.Add(AppendResult(nil, &r))
	}
	for _, op := range []Op{OpScan, OpListHeld, OpListSession, OpListSpaces, OpStats} {
		r := s.Apply(&Command{Op: op, Limit: 100})
		f.Add(AppendResult(nil, &r))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeResult(b)
		if err != nil {
			if !errors.Is(err, ErrResult) {
				t.Fatal(err)
			}
			return
		}
		if again, err := DecodeResult(AppendResult(nil, &r)); err != nil || !same(again, r) {
			t.Fatalf("%v: %+v became %+v", err, r, again)
		}
	})
}

func TestShardSets(t *testing.T) {
	var s ShardSet
	for _, i := range []int{255, 0, 63, 64} {
		s.Add(i)
	}
	if got := slices.Collect(s.All()); !slices.Equal(got, []int{0, 63, 64, 255}) || s.Len() != 4 || s.only() != -1 {
		t.Errorf("%v, %d of them", got, s.Len())
	}
	rest := AllShards()
	rest.Remove(s)
	if rest.Len() != Shards-4 || rest.Has(64) || !rest.Has(65) {
		t.Errorf("without them there are %d", rest.Len())
	}
}
