package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/iotest"
)

func encoded(t testing.TB, f frame) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := writeFrame(&b, f); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFramesComeBack(t *testing.T) {
	for _, size := range []int{0, 1, firstRead - 1, firstRead, firstRead + 1, 100_000} {
		f := frame{ordered, 1<<63 + 7, bytes.Repeat([]byte("x"), size)}
		got, err := readFrame(iotest.OneByteReader(bytes.NewReader(encoded(t, f))), size)
		if err != nil || got.kind != f.kind || got.number != f.number || !bytes.Equal(got.body, f.body) {
			t.Errorf("a body of %d bytes: got %d bytes, kind %d, number %d, %v", size, len(got.body), got.kind, got.number, err)
		}
	}
}

func TestWhatIsNoFrameIsRefused(t *testing.T) {
	good := encoded(t, frame{question, 1, []byte("abc")})
	change := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	for what, c := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":                    {nil, io.EOF},
		"half a head":                {good[:7], io.ErrUnexpectedEOF},
		"half a body":                {good[:len(good)-1], io.ErrUnexpectedEOF},
		"a head without a body":      {good[:lengthSize+headSize], io.ErrUnexpectedEOF},
		"kind 0":                     {change(lengthSize, 0), errFrame},
		"a kind too high":            {change(lengthSize, byte(kinds)), errFrame},
		"a length below a head's":    {change(3, headSize-1), errFrame},
		"a length above the limit":   {change(3, headSize+11), errFrame},
		"a length of four gigabytes": {change(0, 0xff), errFrame},
	} {
		if _, err := readFrame(bytes.NewReader(c.b), 10); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", what, err, c.want)
		}
	}
}

func TestALengthAloneCostsNothing(t *testing.T) {
	const claimed = 1 << 30
	head := make([]byte, lengthSize+headSize+10)
	binary.BigEndian.PutUint32(head, claimed)
	head[lengthSize] = byte(question)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := readFrame(bytes.NewReader(head), claimed); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("ten bytes of a gigabyte made %d bytes be allocated", grown)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(encoded(f, frame{question, 1, []byte("abc")}))
	f.Add(append(encoded(f, frame{kind: ping}), encoded(f, frame{answer, 2, nil})...))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		for {
			start := len(b) - r.Len()
			got, err := readFrame(r, 1<<16)
			if err != nil {
				return
			}
			if again := encoded(t, got); !bytes.Equal(again, b[start:len(b)-r.Len()]) {
				t.Fatalf("%x was read as %+v, which is written as %x", b[start:], got, again)
			}
		}
	})
}

func FuzzGreeting(f *testing.F) {
	id := newID()
	f.Add(greeting{ID: id, Boot: id, Name: "a", Addr: "1.2.3.4:5", Gossip: "[::1]:5", MaxFrame: minFrame}.encode())
	f.Add([]byte(`{"id":"0123456789abcdef","roster":{"gone":[{"id":"x"}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := decodeGreeting(b, "a")
		if err != nil {
			return
		}
		if _, err := decodeGreeting(g.encode(), "a"); err != nil {
			t.Fatalf("%s is taken, and not what it means: %v", b, err)
		}
	})
}
