package journal

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A frame is a record in a file:
//
//	2 bytes  mark, by which frames can be found behind damage
//	4 bytes  length of the record, little endian, at least 1
//	4 bytes  CRC-32C of length and record, little endian
//	         the record
const (
	frameMark   = 0xC0A7
	frameHeader = 10
)

// The first bytes of a file: what it is, the format's version, and its number.
const (
	segmentMagic  = "coatjrn\x01"
	snapshotMagic = "coatsnp\x01"
	fileHeader    = 16
)

// endMark is the record behind the last one of a segment that is followed by another, and of a snapshot. It
// cannot be a store's record, whose kinds begin at 1.
const endMark = 0x00

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(length, record []byte) uint32 {
	return crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, record)
}

// appendFrame appends a record's frame to b.
func appendFrame(b, record []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, frameMark)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(record)))
	b = binary.LittleEndian.AppendUint32(b, checksum(b[len(b)-4:], record))
	return append(b, record...)
}

// appendEnd appends the end mark's frame; it carries the number of records before it.
func appendEnd(b []byte, records uint64) []byte {
	return appendFrame(b, binary.AppendUvarint([]byte{endMark}, records))
}

func header(magic string, number uint64) []byte {
	return binary.LittleEndian.AppendUint64([]byte(magic), number)
}

// errDamaged is returned for bytes that are not a frame.
var errDamaged = errors.New("damaged")

// scanner reads the frames of one file.
type scanner struct {
	r       *bufio.Reader
	size    int64 // of the file
	offset  int64 // of the next frame
	records uint64
	ended   bool // the end mark was read
	buf     []byte
}

// newScanner checks the file's header. It returns an error that wraps errDamaged when it is not the one expected.
func newScanner(r io.Reader, size int64, magic string, number uint64) (*scanner, error) {
	s := &scanner{r: bufio.NewReaderSize(r, 1<<20), size: size, offset: fileHeader}
	got := make([]byte, fileHeader)
	if _, err := io.ReadFull(s.r, got); err != nil {
		return nil, fmt.Errorf("%w: the file's header is cut short", errDamaged)
	}
	if !bytes.Equal(got, header(magic, number)) {
		return nil, fmt.Errorf("%w: the file's header is not that of a %q file of this version with its number", errDamaged, magic[:7])
	}
	return s, nil
}

// next returns the next record, valid until the next call. It returns io.EOF at the end of the file, and an error that wraps
// errDamaged when there is no whole frame at offset.
func (s *scanner) next() ([]byte, error) {
	if s.offset == s.size {
		return nil, io.EOF
	}
	if s.ended {
		return nil, fmt.Errorf("%w: something follows the end mark", errDamaged)
	}
	var h [frameHeader]byte
	if s.size-s.offset < frameHeader {
		return nil, fmt.Errorf("%w: a record's header is cut short", errDamaged)
	}
	if _, err := io.ReadFull(s.r, h[:]); err != nil {
		return nil, err
	}
	length := int64(binary.LittleEndian.Uint32(h[2:]))
	if binary.LittleEndian.Uint16(h[:]) != frameMark || length == 0 {
		return nil, fmt.Errorf("%w: there is no record", errDamaged)
	}
	if length > s.size-s.offset-frameHeader {
		return nil, fmt.Errorf("%w: a record is cut short", errDamaged)
	}
	if int64(cap(s.buf)) < length {
		s.buf = make([]byte, length)
	}
	record := s.buf[:length]
	if _, err := io.ReadFull(s.r, record); err != nil {
		return nil, err
	}
	if checksum(h[2:6], record) != binary.LittleEndian.Uint32(h[6:]) {
		return nil, fmt.Errorf("%w: a record's checksum is wrong", errDamaged)
	}
	s.offset += frameHeader + length
	if record[0] == endMark {
		return nil, s.end(record)
	}
	s.records++
	return record, nil
}

// end takes the end mark in.
func (s *scanner) end(record []byte) error {
	if n, size := binary.Uvarint(record[1:]); size <= 0 || n != s.records {
		return fmt.Errorf("%w: the end mark counts %d records, there are %d", errDamaged, n, s.records)
	}
	s.ended = true
	if s.offset != s.size {
		return fmt.Errorf("%w: something follows the end mark", errDamaged)
	}
	return io.EOF
}

// frameFollows says whether a whole frame begins anywhere in b: what is before it is damage, not a torn end.
func frameFollows(b []byte) bool {
	mark := binary.LittleEndian.AppendUint16(nil, frameMark)
	for {
		at := bytes.Index(b, mark)
		if at < 0 || len(b)-at < frameHeader+1 {
			return false
		}
		b = b[at:]
		length := uint64(binary.LittleEndian.Uint32(b[2:]))
		if length > 0 && length <= uint64(len(b)-frameHeader) &&
			checksum(b[2:6], b[frameHeader:frameHeader+length]) == binary.LittleEndian.Uint32(b[6:]) {
			return true
		}
		b = b[len(mark):]
	}
}
