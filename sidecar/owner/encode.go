package owner

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errMessage is returned for bytes that are no message of this version.
var errMessage = errors.New("not a peer message of this version")

func appendString[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendBool(b []byte, is bool) []byte {
	if is {
		return append(b, 1)
	}
	return append(b, 0)
}

// reader reads the parts of a message. After the first fault it reads zeros, and err says what was wrong.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", errMessage, what)
	}
	r.b = nil
}

func (r *reader) uint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.fail("a number is cut short")
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) int() int64 {
	n, size := binary.Varint(r.b)
	if size <= 0 {
		r.fail("a number is cut short")
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) fixed() uint64 {
	if len(r.b) < 8 {
		r.fail("a number is cut short")
		return 0
	}
	n := binary.BigEndian.Uint64(r.b)
	r.b = r.b[8:]
	return n
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail("it ends too soon")
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) bool() bool { return r.byte() == 1 }

func (r *reader) bytes() []byte {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.fail("a length is beyond its end")
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) string() string { return string(r.bytes()) }

// count reads how many parts follow, each of which takes size bytes or more: no count is trusted for allocation.
func (r *reader) count(size int) int {
	n := r.uint()
	if n > uint64(len(r.b)/size) {
		r.fail("a count is beyond its end")
		return 0
	}
	return int(n)
}

func (r *reader) viewID() ViewID { return ViewID{r.uint(), r.fixed()} }

func appendUint(b []byte, n uint64) []byte { return binary.AppendUvarint(b, n) }
