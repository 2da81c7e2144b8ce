package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"
)

// frameOf puts a header before a body.
func frameOf(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// request makes the body of a request whose params are given as bytes.
func request(method string, params []byte) []byte {
	b := msgp.AppendArrayHeader(nil, 4)
	b = msgp.AppendUint32(msgp.AppendInt(b, typeRequest), 7)
	return append(msgp.AppendString(b, method), params...)
}

// with makes params with one entry, whose value is given as bytes.
func with(name string, value []byte) []byte {
	return append(msgp.AppendString(msgp.AppendMapHeader(nil, 1), name), value...)
}

func decode(body []byte) (Request, error) {
	var r Request
	err := r.Decode(body)
	return r, err
}

// wantProtocol fails the test unless err is a protocol error that leaves the connection open and names what is wrong.
func wantProtocol(t *testing.T, what string, err error, says string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != Protocol {
		t.Errorf("%s: %v, want a protocol error", what, err)
	} else if !strings.Contains(e.Message, says) {
		t.Errorf("%s: %q does not say %q", what, e.Message, says)
	}
}

// values are one right and several wrong values of each kind of parameter, as bytes.
func (f *field) samples() (right [][]byte, wrong map[string][]byte) {
	str, bin := msgp.AppendString(nil, "x"), msgp.AppendBytes(nil, []byte("x"))
	number, flag := msgp.AppendInt(nil, 1), msgp.AppendBool(nil, true)
	list := msgp.AppendString(msgp.AppendArrayHeader(nil, 1), "x")
	wrong = map[string][]byte{"a float": msgp.AppendFloat64(nil, 1), "a map": msgp.AppendMapHeader(nil, 0), "an extension": {0xd4, 1, 1}}
	switch {
	case f.bytes != nil:
		right = [][]byte{str, bin}
		wrong["a number"], wrong["a flag"], wrong["a list"] = number, flag, list
	case f.list != nil:
		right = [][]byte{list, msgp.AppendArrayHeader(nil, 0), msgp.AppendBytes(msgp.AppendArrayHeader(nil, 1), []byte("x"))}
		wrong["a string"], wrong["a number"], wrong["a list of numbers"] = str, number, append(msgp.AppendArrayHeader(nil, 1), number...)
	case f.number != nil:
		right = [][]byte{number, msgp.AppendUint64(nil, math.MaxInt64), {0xcc, 200}}
		wrong["a string"], wrong["a flag"], wrong["64 bits"] = str, flag, msgp.AppendUint64(nil, math.MaxUint64)
	default:
		right = [][]byte{flag, msgp.AppendBool(nil, false)}
		wrong["a string"], wrong["a number"] = str, number
	}
	return right, wrong
}

func TestEveryParameterOfEveryMethod(t *testing.T) {
	for m := range Unknown {
		for p := range paramCount {
			f := &fields[p]
			what := m.String() + " " + f.name
			right, wrong := f.samples()
			if !methods[m].params.has(p) {
				_, err := decode(request(m.String(), with(f.name, right[0])))
				wantProtocol(t, what, err, fmt.Sprintf("%s has no parameter %q", m, f.name))
				continue
			}
			for _, value := range right {
				r, err := decode(request(m.String(), with(f.name, value)))
				if err != nil || r.Method != m || r.ID != 7 || !r.Params.given.has(p) {
					t.Errorf("%s: %v, method %v, id %d, given %v", what, err, r.Method, r.ID, r.Params.given.has(p))
				}
			}
			for kind, value := range wrong {
				_, err := decode(request(m.String(), with(f.name, value)))
				wantProtocol(t, what+" is "+kind, err, m.String()+": "+f.name+" ")
			}
			r, err := decode(request(m.String(), with(f.name, msgp.AppendNil(nil))))
			if err != nil || r.Params.given != 0 {
				t.Errorf("%s given as nil: %v, given %b; want absent", what, err, r.Params.given)
			}
		}
	}
}

func TestRanges(t *testing.T) {
	str := func(n int) []byte { return msgp.AppendString(nil, strings.Repeat("x", n)) }
	num := func(n int64) []byte { return msgp.AppendInt64(nil, n) }
	for _, c := range []struct {
		method, name string
		value        []byte
		says         string // of the error; empty: none
	}{
		{"kv.get", "key", str(MaxKey), ""},
		{"kv.get", "key", str(MaxKey + 1), "65536 bytes long; the limit is 65535"},
		{"kv.get", "key", str(0), "must not be empty"},
		{"kv.get", "bucket", str(0), ""},
		{"kv.get", "bucket", str(256), "the limit is 255"},
		{"kv.mget", "keys", append(msgp.AppendArrayHeader(nil, 1), str(0)...), "must not be empty"},
		{"kv.mget", "keys", append(msgp.AppendArrayHeader(nil, 1), str(MaxKey+1)...), "the limit is 65535"},
		{"lock.acquire", "token", str(0), "must not be empty"},
		{"lock.acquire", "token", str(255), ""},
		{"lock.acquire", "token", str(256), "the limit is 255"},
		{"lock.acquire", "lease_ms", num(0), ""},
		{"lock.acquire", "lease_ms", num(-1), "is -1; the least is 0"},
		{"lock.acquire", "wait_ms", num(-1), "the least is 0"},
		{"session.open", "id", str(0), ""}, // which ids are right is the daemon's to say: refused, not protocol
		{"session.commit", "data", str(0), ""},
		{"session.commit", "fence", num(-1), "the least is 0"},
		{"kv.set", "ttl_ms", num(-1), ""},
		{"kv.set", "ttl_ms", num(math.MinInt64), ""},
		{"kv.incr_by", "delta", num(math.MinInt64), ""},
		{"kv.incr_by", "floor", num(-5), ""},
		{"kv.scan", "count", num(0), "the least is 1"},
		{"kv.scan", "cursor", num(-1), "the least is 0"},
		{"kv.wait", "version", num(-1), "the least is 0"},
		{"lock.list", "limit", num(0), "the least is 1"},
	} {
		_, err := decode(request(c.method, with(c.name, c.value)))
		what := fmt.Sprintf("%s %s of %d bytes", c.method, c.name, len(c.value))
		if c.says == "" && err != nil {
			t.Errorf("%s: %v", what, err)
		} else if c.says != "" {
			wantProtocol(t, what, err, c.says)
		}
	}
}

func TestNumbersOfEveryWidth(t *testing.T) {
	for value, body := range map[int64][]byte{
		5: {5}, 200: {0xcc, 200}, -3: {0xfd}, -100: {0xd0, 0x9c}, 300: {0xcd, 1, 44}, -300: {0xd1, 0xfe, 0xd4},
		70_000: {0xce, 0, 1, 0x11, 0x70}, -70_000: {0xd2, 0xff, 0xfe, 0xee, 0x90},
		math.MinInt64: {0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0}, math.MaxInt64: {0xcf, 0x7f, 255, 255, 255, 255, 255, 255, 255},
	} {
		r, err := decode(request("kv.incr_by", with("delta", body)))
		if err != nil || r.Params.Delta != value || !r.Params.HasDelta() {
			t.Errorf("delta %d: %v, %d", value, err, r.Params.Delta)
		}
	}
}

func TestGivenIsTheOnesThatWere(t *testing.T) {
	body := AppendRequest(nil, 1, "kv.set", Pairs{{"key", "k"}, {"value", ""}, {"ifeq", nil}, {"ttl_ms", 0}})
	r, err := decode(body[HeaderSize:])
	if err != nil {
		t.Fatal(err)
	}
	if !r.Params.HasKey() || !r.Params.HasValue() || r.Params.HasIfEq() || !r.Params.HasTTL() || r.Params.HasDelta() || r.Params.HasLease() || r.Params.HasFloor() {
		t.Errorf("given: %b", r.Params.given)
	}
	// A request that is used again has nothing of the one before.
	if err := r.Decode(AppendRequest(nil, 2, "kv.mget", Pairs{{"keys", [][]byte{[]byte("a")}}})[HeaderSize:]); err != nil {
		t.Fatal(err)
	}
	if r.Params.HasKey() || r.Params.HasValue() || r.Params.Key != nil || len(r.Params.Keys) != 1 {
		t.Errorf("the second request has %+v", r.Params)
	}
	if err := r.Decode(AppendRequest(nil, 3, "kv.del", Pairs{{"key", "k"}})[HeaderSize:]); err != nil || len(r.Params.Keys) != 0 {
		t.Errorf("the third request has keys %q, %v", r.Params.Keys, err)
	}
}

func TestNotification(t *testing.T) {
	b := msgp.AppendArrayHeader(nil, 3)
	b = msgp.AppendString(msgp.AppendInt(b, typeNotification), "server.end_request")
	r := Request{ID: 9}
	if err := r.Decode(msgp.AppendMapHeader(b, 0)); err != nil || !r.Notification || r.Method != ServerEndRequest || r.ID != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := r.Decode(request("server.ping", msgp.AppendNil(nil))); err != nil || r.Notification {
		t.Errorf("the request after it: %+v, %v", r, err)
	}
}

func TestUnknownMethod(t *testing.T) {
	for _, name := range []string{"", "kv", "kv.gets", "KV.GET", "unknown", "kv.get\x00"} {
		r, err := decode(request(name, msgp.AppendMapHeader(nil, 0)))
		wantProtocol(t, name, err, "there is no method")
		if r.ID != 7 || r.Method != Unknown {
			t.Errorf("%q: id %d, method %v", name, r.ID, r.Method)
		}
	}
	_, err := decode(request(strings.Repeat("m", 100_000), msgp.AppendMapHeader(nil, 0)))
	if len(err.Error()) > 1000 {
		t.Errorf("the error repeats a name of 100,000 bytes: %d bytes", len(err.Error()))
	}
}

func TestMalformed(t *testing.T) {
	ok := request("server.ping", msgp.AppendMapHeader(nil, 0))
	for what, body := range map[string][]byte{
		"nothing":              {},
		"text":                 []byte("GET / HTTP/1.1\r\n\r\n"),
		"nil":                  {0xc0},
		"a map":                {0x80},
		"an empty array":       {0x90},
		"an array of five":     append([]byte{0x95}, ok[1:]...),
		"a response":           {0x94, 1, 7, 0xc0, 0xc0},
		"kind 3":               {0x94, 3, 7, 0xa1, 'x', 0x80},
		"kind as text":         {0x94, 0xa1, '0', 7, 0xa1, 'x', 0x80},
		"a request of three":   {0x93, 0, 7, 0xa1, 'x'},
		"a notification of 4":  {0x94, 2, 7, 0xa1, 'x', 0x80},
		"a negative id":        {0x94, 0, 0xff, 0xa1, 'x', 0x80},
		"an id of 33 bits":     {0x94, 0, 0xcf, 0, 0, 0, 1, 0, 0, 0, 0, 0xa1, 'x', 0x80},
		"an id as text":        {0x94, 0, 0xa1, '7', 0xa1, 'x', 0x80},
		"a method as number":   {0x94, 0, 7, 9, 0x80},
		"a method as nil":      {0x94, 0, 7, 0xc0, 0x80},
		"the byte never used":  {0xc1},
		"an array without end": {0xdd, 0xff, 0xff, 0xff, 0xff},
	} {
		if _, err := decode(body); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", what, err)
		}
	}
	for what, params := range map[string][]byte{
		"a list": {0x90}, "a number": {1}, "missing": {}, "text": {0xa1, 'x'},
	} {
		_, err := decode(request("server.ping", params))
		wantProtocol(t, "params: "+what, err, "params must be a map")
	}
	_, err := decode(request("kv.get", []byte{0x81, 1, 1}))
	wantProtocol(t, "a name that is a number", err, "must be a string")
	_, err = decode(append(ok, 0xc0, 0xc0, 0xc0))
	wantProtocol(t, "trailing bytes", err, "3 bytes follow the message")
}

// sample is a request with parameters of every kind.
func sample() []byte {
	return AppendRequest(nil, 1<<31, "kv.set", Pairs{
		{"key", "a key"}, {"value", bytes.Repeat([]byte("v"), 300)}, {"ttl_ms", int64(1) << 40}, {"nx", true}, {"bucket", nil},
	})[HeaderSize:]
}

func TestTruncatedAnywhereIsAnError(t *testing.T) {
	for _, body := range [][]byte{
		sample(),
		AppendRequest(nil, 1, "kv.mget", Pairs{{"keys", [][]byte{[]byte("one"), []byte("two")}}})[HeaderSize:],
		AppendRequest(nil, 1, "lock.acquire", Pairs{{"name", "n"}, {"token", "t"}, {"bound", true}, {"lease_ms", 70_000}})[HeaderSize:],
	} {
		if _, err := decode(body); err != nil {
			t.Fatal(err)
		}
		for n := range body {
			_, err := decode(body[:n:n])
			var e *Error
			if !errors.Is(err, ErrMalformed) && !errors.As(err, &e) {
				t.Errorf("the first %d of %d bytes: %v", n, len(body), err)
			}
		}
	}
}

func TestEveryChangedByteIsDecodedOrRefused(t *testing.T) {
	body := sample()
	for at := range body[:40] {
		for value := range 256 {
			changed := bytes.Clone(body)
			changed[at] = byte(value)
			_, err := decode(changed) // must return, and only with errors that the daemon knows
			var e *Error
			if err != nil && !errors.Is(err, ErrMalformed) && !errors.As(err, &e) {
				t.Errorf("byte %d as %#x: %v", at, value, err)
			}
		}
	}
}

// grown returns how many bytes run allocated.
func grown(run func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestLengthsAreNotTrusted(t *testing.T) {
	const most = 64 << 10
	huge := []byte{0xff, 0xff, 0xff, 0xff}
	for what, body := range map[string][]byte{
		"a list of keys":   request("kv.mget", with("keys", append([]byte{0xdd}, huge...))),
		"a list of 16,384": request("kv.mget", with("keys", []byte{0xdc, 0x40, 0x00, 0xa1, 'x'})),
		"a text":           request("kv.get", with("key", append([]byte{0xdb}, huge...))),
		"a binary":         request("kv.set", with("value", append([]byte{0xc6}, huge...))),
		"a map":            request("kv.get", append([]byte{0xdf}, huge...)),
		"a method":         append([]byte{0x94, 0, 7, 0xdb}, huge...),
		"a message":        append([]byte{0xdd}, huge...),
	} {
		var err error
		if n := grown(func() { _, err = decode(body) }); n > most {
			t.Errorf("%s that claims to be huge took %d bytes", what, n)
		}
		if err == nil {
			t.Errorf("%s that claims to be huge was accepted", what)
		}
	}
}

func TestTooManyKeys(t *testing.T) {
	keys := make([][]byte, MaxKeys+1)
	for i := range keys {
		keys[i] = []byte("k")
	}
	_, err := decode(AppendRequest(nil, 1, "kv.mget", Pairs{{"keys", keys}})[HeaderSize:])
	wantProtocol(t, "one too many", err, "has 16385 entries; the limit is 16384")
	r, err := decode(AppendRequest(nil, 1, "kv.mget", Pairs{{"keys", keys[1:]}})[HeaderSize:])
	if err != nil || len(r.Params.Keys) != MaxKeys {
		t.Errorf("as many as are allowed: %d, %v", len(r.Params.Keys), err)
	}
}

// TestForgetDropsEveryPointer, also those to the keys of an earlier and longer list.
func TestForgetDropsEveryPointer(t *testing.T) {
	keysOf := func(n int) Pairs { return Pairs{{Key: "keys", Value: slices.Repeat([]string{"k"}, n)}} }
	for _, c := range []struct {
		keys []int
		kept bool
	}{{[]int{200, 3}, true}, {[]int{keptKeys + 1}, false}, {[]int{MaxKeys, 1}, false}, {nil, false}} {
		var r Request
		for _, n := range c.keys {
			if err := r.Decode(AppendRequest(nil, 1, "kv.mget", keysOf(n))[HeaderSize:]); err != nil {
				t.Fatal(err)
			}
		}
		r.Params.Forget()
		rest := r.Params
		rest.Keys = nil
		if !reflect.DeepEqual(rest, Params{}) {
			t.Errorf("%v keys: what is left is %+v", c.keys, rest)
		}
		all := r.Params.Keys[:cap(r.Params.Keys)]
		if len(r.Params.Keys) != 0 || (len(all) > 0) != c.kept {
			t.Errorf("%v keys: room for %d is kept", c.keys, len(all))
		}
		for i, key := range all {
			if key != nil {
				t.Fatalf("%v keys: number %d is still there", c.keys, i)
			}
		}
	}
}

func TestDeepNestingIsRefusedAtOnce(t *testing.T) {
	deep := append(bytes.Repeat([]byte{0x91}, 100_000), 0xc0)
	deepMap := append(bytes.Repeat([]byte{0x81, 0xa1, 'x'}, 100_000), 0xc0)
	for what, body := range map[string][]byte{
		"a value of arrays": request("kv.set", with("value", deep)),
		"a value of maps":   request("kv.set", with("value", deepMap)),
		"params":            request("kv.set", deepMap),
		"keys":              request("kv.mget", with("keys", deep)),
		"the message":       deep,
	} {
		if _, err := decode(body); err == nil {
			t.Errorf("%s, 100,000 deep, was accepted", what)
		}
	}
}

func TestDecodingAllocatesNothing(t *testing.T) {
	var r Request
	get := AppendRequest(nil, 1, "kv.get", Pairs{{"key", "k"}, {"bucket", "b"}})[HeaderSize:]
	commit := AppendRequest(nil, 1, "session.commit", Pairs{
		{"id", "x"}, {"token", "t"}, {"fence", 5}, {"data", make([]byte, 4096)}, {"ttl_ms", 9}, {"release", true},
	})[HeaderSize:]
	if n := testing.AllocsPerRun(100, func() {
		if r.Decode(get) != nil || r.Decode(commit) != nil {
			t.Fatal("not decoded")
		}
	}); n > 0 {
		t.Errorf("two requests took %v allocations", n)
	}
}

func TestNext(t *testing.T) {
	one, two := frameOf([]byte("one")), frameOf(nil)
	both := append(bytes.Clone(one), two...)
	frame, rest, err := Next(both, 100)
	if string(frame) != "one" || !bytes.Equal(rest, two) || err != nil {
		t.Errorf("first: %q, %v, %v", frame, rest, err)
	}
	frame, rest, err = Next(rest, 100)
	if len(frame) != 0 || len(rest) != 0 || err != nil {
		t.Errorf("second: %q, %v, %v", frame, rest, err)
	}
	for n := range one {
		if _, rest, err := Next(one[:n], 100); !errors.Is(err, ErrIncomplete) || len(rest) != n {
			t.Errorf("%d bytes of it: %v, %d left", n, err, len(rest))
		}
	}
	if _, _, err := Next(one, 3); err != nil {
		t.Errorf("a frame of just the limit: %v", err)
	}
	for _, header := range [][]byte{{0, 0, 0, 4}, {0xff, 0xff, 0xff, 0xff}, {0x80, 0, 0, 0}} {
		_, _, err := Next(header, 3)
		var e *Error
		if !errors.As(err, &e) || e.Code != TooLarge || len(e.Details) != 2 {
			t.Errorf("a frame that announces %v: %v", header, err)
		}
	}
}

func TestResponseThereAndBack(t *testing.T) {
	b := BeginResponse([]byte("before"), 42)
	b = EndResponse(AppendPairs(b, Pairs{{"data", []byte{0, 1}}, {"n", int64(-5)}, {"word", "w"}, {"list", []Pairs{{{"a", true}}}}, {"none", nil}}), 6)
	frame, rest, err := Next(b[6:], 1000)
	if err != nil || len(rest) > 0 {
		t.Fatalf("%v, %d left", err, len(rest))
	}
	id, result, err := DecodeResponse(frame)
	m, ok := result.(map[string]any)
	if err != nil || id != 42 || !ok {
		t.Fatalf("id %d, %v, %v", id, result, err)
	}
	if string(m["data"].([]byte)) != "\x00\x01" || m["n"] != int64(-5) || m["word"] != "w" || m["none"] != nil || len(m["list"].([]any)) != 1 {
		t.Errorf("%#v", m)
	}
}

func TestErrorThereAndBack(t *testing.T) {
	for _, code := range Codes {
		frame, _, err := Next(AppendError(nil, 3, &Error{code, "because", Pairs{{"reason", "r"}}}), 1000)
		if err != nil {
			t.Fatal(err)
		}
		id, result, err := DecodeResponse(frame)
		var e *Error
		if !errors.As(err, &e) || id != 3 || result != nil {
			t.Fatalf("id %d, %v, %v", id, result, err)
		}
		if e.Code != code || e.Message != "because" || len(e.Details) != 1 || e.Details[0].Value != "r" || e.Error() != string(code)+": because" {
			t.Errorf("%+v", e)
		}
	}
}

func TestDecodeResponseRefuses(t *testing.T) {
	deep := append(bytes.Repeat([]byte{0x91}, 1_000_000), 0xc0)
	for what, body := range map[string][]byte{
		"nothing":                 {},
		"a request":               request("server.ping", []byte{0x80}),
		"three parts":             {0x93, 1, 0, 0xc0},
		"an id of text":           {0x94, 1, 0xa1, 'x', 0xc0, 0xc0},
		"no result":               {0x94, 1, 0, 0xc0},
		"an error of two parts":   {0x94, 1, 0, 0x92, 0xa1, 'c', 0xa1, 'm', 0xc0},
		"an error of one word":    {0x94, 1, 0, 0xa1, 'c', 0xc0},
		"a list that has no end":  {0x94, 1, 0, 0xc0, 0xdd, 0xff, 0xff, 0xff, 0xff},
		"a map that has no end":   {0x94, 1, 0, 0xc0, 0xdf, 0xff, 0xff, 0xff, 0xff},
		"a binary without end":    {0x94, 1, 0, 0xc0, 0xc6, 0xff, 0xff, 0xff, 0xff},
		"a result a million deep": append([]byte{0x94, 1, 0, 0xc0}, deep...),
	} {
		var err error
		if n := grown(func() { _, _, err = DecodeResponse(body) }); n > 64<<20 {
			t.Errorf("%s took %d bytes", what, n)
		}
		if err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
}

func TestPairsAsJSONKeepTheirOrder(t *testing.T) {
	b, err := Pairs{{"z", 1}, {"a", "x"}, {"m", Pairs{{"n", nil}}}, {"l", []Pairs{}}}.MarshalJSON()
	if want := `{"z":1,"a":"x","m":{"n":null},"l":[]}`; err != nil || string(b) != want {
		t.Errorf("%s, %v; want %s", b, err, want)
	}
	if b, err := (Pairs)(nil).MarshalJSON(); err != nil || string(b) != "{}" {
		t.Errorf("an empty one is %s, %v", b, err)
	}
	if _, err := (Pairs{{"f", func() {}}}).MarshalJSON(); err == nil {
		t.Error("a function became JSON")
	}
}

func BenchmarkDecode(b *testing.B) {
	body := AppendRequest(nil, 1, "session.commit", Pairs{
		{"id", "0123456789abcdef"}, {"token", "0123456789abcdef0123456789abcdef"}, {"fence", int64(1) << 60},
		{"data", make([]byte, 4096)}, {"ttl_ms", 1_440_000}, {"release", true},
	})[HeaderSize:]
	var r Request
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}
