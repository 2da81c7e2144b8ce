package wire

import (
	"bytes"
	"errors"
	"testing"
)

func FuzzRequestDecode(f *testing.F) {
	f.Add(sample())
	f.Add(AppendRequest(nil, 1, "kv.mget", Pairs{{"keys", [][]byte{[]byte("a"), []byte("b")}}})[HeaderSize:])
	f.Add(AppendRequest(nil, 1, "session.open", Pairs{{"id", "x"}, {"token", "t"}, {"wait_ms", 5}, {"policy", "fail"}})[HeaderSize:])
	f.Add([]byte{0x93, 2, 0xb2, 's', 'e', 'r', 'v', 'e', 'r', '.', 'e', 'n', 'd', '_', 'r', 'e', 'q', 'u', 'e', 's', 't', 0xc0})
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})
	var used Request // what is left of one request must not show in the next
	f.Fuzz(func(t *testing.T, body []byte) {
		var fresh Request
		err := fresh.Decode(body)
		if again := used.Decode(body); (err == nil) != (again == nil) {
			t.Fatalf("a fresh request says %v, a used one %v", err, again)
		}
		var e *Error
		if err != nil && !errors.Is(err, ErrMalformed) && !errors.As(err, &e) {
			t.Fatalf("an error that the daemon does not know: %v", err)
		}
		if err != nil {
			return
		}
		if fresh.Method >= Unknown {
			t.Fatal("accepted without a method")
		}
		p, q := &fresh.Params, &used.Params
		if p.given != q.given || p.given&^methods[fresh.Method].params != 0 || !bytes.Equal(p.Key, q.Key) || len(p.Keys) != len(q.Keys) {
			t.Fatalf("%v: given %b and %b", fresh.Method, p.given, q.given)
		}
		if len(p.Keys) > MaxKeys || len(p.Key) > MaxKey || len(p.Token) > maxWord || len(p.Bucket) > maxWord || p.Lease < 0 || p.Fence < 0 {
			t.Fatalf("out of range: %+v", p)
		}
	})
}

func FuzzNext(f *testing.F) {
	f.Add(frameOf([]byte("one")), 100)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0}, 100)
	f.Add([]byte{0, 0, 0}, 0)
	f.Fuzz(func(t *testing.T, b []byte, limit int) {
		if limit < 0 {
			return
		}
		frame, rest, err := Next(b, limit)
		var e *Error
		switch {
		case err == nil:
			if len(frame) > limit || !bytes.Equal(append(frameOf(frame), rest...), b) {
				t.Fatalf("%x was cut into %x and %x", b, frame, rest)
			}
		case errors.Is(err, ErrIncomplete):
			if len(b) >= HeaderSize && int(b[0])<<24|int(b[1])<<16|int(b[2])<<8|int(b[3]) <= len(b)-HeaderSize {
				t.Fatalf("%x is complete", b)
			}
		case !errors.As(err, &e) || e.Code != TooLarge:
			t.Fatalf("an error that the daemon does not know: %v", err)
		}
	})
}

func FuzzDecodeResponse(f *testing.F) {
	f.Add(EndResponse(AppendPairs(BeginResponse(nil, 1), Pairs{{"a", int64(1)}, {"b", []byte("x")}}), 0)[HeaderSize:])
	f.Add(AppendError(nil, 1, &Error{Busy, "m", Pairs{{"reason", "wait_over"}}})[HeaderSize:])
	f.Add([]byte{0x94, 1, 0, 0xc0, 0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, body []byte) {
		_, result, err := DecodeResponse(body)
		var e *Error
		if err != nil && result != nil {
			t.Fatalf("both a result and an error: %v, %v", result, err)
		}
		if err != nil && !errors.Is(err, ErrMalformed) && !errors.As(err, &e) {
			t.Fatalf("an error that clients do not know: %v", err)
		}
	})
}
