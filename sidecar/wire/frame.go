package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// Version is the protocol's version, exchanged in hello.
	Version = 1
	// HeaderSize is the size of a frame's length field.
	HeaderSize = 4
	// DefaultMaxFrame is the largest frame's size without its header, unless configured otherwise.
	DefaultMaxFrame = 16 << 20
)

// ErrIncomplete is returned when the bytes at hand end before the frame does.
var ErrIncomplete = errors.New("incomplete frame")

// Next returns the first frame in b, without its header, and what follows it. It returns
// ErrIncomplete when more bytes are needed, and an *Error of code TooLarge for a frame above limit bytes.
func Next(b []byte, limit int) (frame, rest []byte, err error) {
	if len(b) < HeaderSize {
		return nil, b, ErrIncomplete
	}
	size := binary.BigEndian.Uint32(b)
	if uint64(size) > uint64(limit) {
		return nil, b, TooLargeError("the frame", int(size), limit)
	}
	end := HeaderSize + int(size)
	if len(b) < end {
		return nil, b, ErrIncomplete
	}
	return b[HeaderSize:end], b[end:], nil
}

// TooLargeError says that a thing of size bytes is above its limit.
func TooLargeError(what string, size, limit int) *Error {
	return &Error{
		Code:    TooLarge,
		Message: fmt.Sprintf("%s is %d bytes long; the limit is %d", what, size, limit),
		Details: Pairs{{"size", size}, {"limit", limit}},
	}
}

// begin appends room for a header; end fills it in. start is the length of b before begin.
func begin(b []byte) []byte { return append(b, 0, 0, 0, 0) }

func end(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-HeaderSize))
	return b
}
