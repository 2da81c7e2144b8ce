package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// scanBuffer is how much of a file is read at a time. Larger records are read by themselves.
const scanBuffer = 1 << 20

// scanner reads the records of one file.
type scanner struct {
	r       *bufio.Reader
	size    int64  // of the file
	offset  int64  // of the next frame
	codec   *codec // nil: the head is damaged
	key     keyID
	records uint64
	ended   bool // the end mark was read
	large   []byte
}

// start checks the file's head. It returns an error that wraps errDamaged when it is not the one expected, and one that wraps ErrKey
// when its key is missing.
func (s *scanner) start(magic string, number uint64, keys *Keys) error {
	b, err := s.peek(min(headSize, s.size))
	if err != nil {
		return err
	}
	h, err := decodeHead(b, magic, number)
	if err != nil {
		return err
	}
	if s.codec, err = newCodec(h, keys); err != nil {
		return err
	}
	s.r.Discard(headSize)
	s.offset, s.key = headSize, h.key
	return nil
}

// next returns the next record, valid until the next call. It returns io.EOF at the end of the file, and an error that wraps
// errDamaged when there is no whole frame at offset.
func (s *scanner) next() ([]byte, error) {
	left := s.size - s.offset
	if left == 0 {
		return nil, io.EOF
	}
	if s.ended {
		return nil, fmt.Errorf("%w: something follows the end mark", errDamaged)
	}
	b, err := s.peek(min(frameHead, left))
	if err != nil {
		return nil, err
	}
	f, err := decodeFrame(b, left)
	if err != nil {
		return nil, err
	}
	if b, err = s.take(f.head + int(f.size)); err != nil {
		return nil, err
	}
	if !f.whole(s.codec, b) {
		return nil, fmt.Errorf("%w: a record's checksum is wrong", errDamaged)
	}
	payload := b[f.head:]
	if f.mark == endMark {
		return nil, s.end(payload, int64(len(b)))
	}
	record, err := s.codec.open(payload)
	if err != nil {
		return nil, err
	}
	s.offset += int64(len(b))
	s.records++
	return record, nil
}

// peek returns the next size bytes without taking them.
func (s *scanner) peek(size int64) ([]byte, error) {
	b, err := s.r.Peek(int(size))
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // the file had them a moment ago
	}
	return b, err
}

// take returns the next size bytes, valid until the next read. The file is known to have them.
func (s *scanner) take(size int) ([]byte, error) {
	if size <= s.r.Size() {
		b, err := s.peek(int64(size))
		s.r.Discard(len(b)) // they stay in the buffer until more is read
		return b, err
	}
	if cap(s.large) < size {
		s.large = make([]byte, size)
	}
	_, err := io.ReadFull(s.r, s.large[:size])
	return s.large[:size], err
}

// end takes the end mark in, a frame of size bytes.
func (s *scanner) end(payload []byte, size int64) error {
	if n, width := binary.Uvarint(payload); width <= 0 || n != s.records {
		return fmt.Errorf("%w: the end mark counts %d records, there are %d", errDamaged, n, s.records)
	}
	s.ended = true
	s.offset += size
	if s.offset != s.size {
		return fmt.Errorf("%w: something follows the end mark", errDamaged)
	}
	return io.EOF
}
