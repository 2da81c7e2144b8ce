package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// kind says what a frame is.
type kind byte

const (
	hello    kind = iota + 1 // who asks; JSON
	welcome                  // who is asked; JSON
	stranger                 // the peer is not let in; the reason
	question
	ordered // a question that is served after the ordered one before it
	notice  // a member set; JSON. It is answered when it was taken in
	answer
	refusal // the question was not served; the reason
	failure // the Handler returned an error; its text
	ping
	pong
	kinds
)

// A frame on the wire: the length of what follows as 4 bytes, big endian; the kind; the number of the question as 8 bytes; the body.
const (
	lengthSize = 4
	headSize   = 1 + 8 // of what the length counts
	firstRead  = 4 << 10
)

type frame struct {
	kind   kind
	number uint64
	body   []byte
}

// errFrame is returned for bytes that no peer of this protocol sends.
var errFrame = errors.New("no frame of a peer")

// readFrame reads a frame whose body has at most limit bytes. The body's memory grows as it arrives: a length alone costs nothing.
func readFrame(r io.Reader, limit int) (frame, error) {
	var head [lengthSize + headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	size := int64(binary.BigEndian.Uint32(head[:])) - headSize
	f := frame{kind: kind(head[lengthSize]), number: binary.BigEndian.Uint64(head[lengthSize+1:])}
	switch {
	case size < 0 || f.kind == 0 || f.kind >= kinds:
		return frame{}, errFrame
	case size > int64(limit):
		return frame{}, fmt.Errorf("%w: a body of %d bytes, the limit is %d", errFrame, size, limit)
	}
	var err error
	f.body, err = readBody(r, int(size))
	return f, err
}

// readBody reads size bytes.
func readBody(r io.Reader, size int) ([]byte, error) {
	body := make([]byte, 0, min(size, firstRead))
	for len(body) < size {
		if len(body) == cap(body) {
			grown := make([]byte, len(body), min(size, 4*cap(body)))
			copy(grown, body)
			body = grown
		}
		n, err := io.ReadFull(r, body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err != nil {
			return nil, noEnd(err)
		}
	}
	return body, nil
}

// noEnd makes an end in the middle of a frame what it is.
func noEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// writeFrame writes a frame.
func writeFrame(w io.Writer, f frame) error {
	var head [lengthSize + headSize]byte
	binary.BigEndian.PutUint32(head[:], uint32(headSize+len(f.body)))
	head[lengthSize] = byte(f.kind)
	binary.BigEndian.PutUint64(head[lengthSize+1:], f.number)
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	_, err := w.Write(f.body)
	return err
}
