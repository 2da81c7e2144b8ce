package journal

import (
	"bytes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A file begins with its head:
//
//	 8 bytes  what it is, and the version of its format
//	 8 bytes  its number, little endian, as all numbers
//	16 bytes  salt, random
//	 8 bytes  the id of the key that its records are sealed with; zero: they are not
//	 4 bytes  CRC-32C of what is before
//
// and goes on with frames, each a record or the end mark:
//
//	2 bytes  mark, by which frames can be found behind damage
//	4 bytes  CRC-32C of the salt, the length and the payload
//	         length of the payload, a varint
//	         the payload
//
// A record's payload is the record; when it is sealed, 8 bytes that no other record of the file has, and the record by AES-256-GCM with
// them as its nonce, under a key that is derived from the salt. The end mark's is the number of records before it. It is
// behind the last record of a segment that is followed by another, and of a snapshot.
//
// The salt is in the checksum so that nobody can have a session's data look like frames.
const (
	segmentMagic  = "coatjrn\x01"
	snapshotMagic = "coatsnp\x01"
	headSize      = 44

	firstOfMark = 0xC0
	recordMark  = 0xA700 | firstOfMark
	endMark     = 0xE000 | firstOfMark

	frameFixed = 6                                  // mark and checksum
	frameHead  = frameFixed + binary.MaxVarintLen64 // at most

	counterSize = 8
)

// errDamaged is returned for bytes that are not what should be there.
var errDamaged = errors.New("damaged")

// head is the beginning of a file.
type head struct {
	number uint64
	salt   [16]byte
	key    keyID
}

// newHead returns the head of a new file. No other has its salt.
func newHead(number uint64, keys *Keys) head {
	h := head{number: number, key: keys.current()}
	rand.Read(h.salt[:])
	return h
}

func (h head) encode(magic string) []byte {
	b := binary.LittleEndian.AppendUint64([]byte(magic), h.number)
	b = append(append(b, h.salt[:]...), h.key[:]...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeHead returns an error that wraps errDamaged when b is not the head of such a file.
func decodeHead(b []byte, magic string, number uint64) (h head, err error) {
	kind := len(magic) - 1
	switch {
	case len(b) < headSize:
		return h, fmt.Errorf("%w: the file's head is cut short", errDamaged)
	case crc32.Checksum(b[:headSize-4], castagnoli) != binary.LittleEndian.Uint32(b[headSize-4:]):
		return h, fmt.Errorf("%w: the checksum of the file's head is wrong", errDamaged)
	case string(b[:kind]) != magic[:kind]:
		return h, fmt.Errorf("%w: this is a %q file, not a %q file", errDamaged, b[:kind], magic[:kind])
	case b[kind] != magic[kind]:
		return h, fmt.Errorf("the file has format %d and this coatcheck reads format %d: use the version that wrote it", b[kind], magic[kind])
	}
	h.number = binary.LittleEndian.Uint64(b[8:])
	copy(h.salt[:], b[16:])
	copy(h.key[:], b[32:])
	if h.number != number {
		return h, fmt.Errorf("%w: this is file %d by its head", errDamaged, h.number)
	}
	return h, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// codec makes and reads the frames of one file.
type codec struct {
	seed    uint32      // checksum of the salt
	aead    cipher.AEAD // nil: records are not sealed
	counter uint64      // the last one used; it never goes back, not even when what it sealed was not written
}

// newCodec returns an error that wraps ErrKey when keys has not the key of the file.
func newCodec(h head, keys *Keys) (*codec, error) {
	c := &codec{seed: crc32.Checksum(h.salt[:], castagnoli)}
	if h.key == noKey {
		return c, nil
	}
	aead, err := keys.aead(h)
	c.aead = aead
	return c, err
}

// beginFrame appends a frame's head, without its checksum, to b.
func beginFrame(b []byte, mark uint16, size int) []byte {
	b = binary.LittleEndian.AppendUint16(b, mark)
	return binary.AppendUvarint(append(b, 0, 0, 0, 0), uint64(size))
}

// sum sets the checksum of the frame that is the end of b, from start on.
func (c *codec) sum(b []byte, start int) []byte {
	binary.LittleEndian.PutUint32(b[start+2:], crc32.Update(c.seed, castagnoli, b[start+frameFixed:]))
	return b
}

// appendRecord appends a record's frame to b.
func (c *codec) appendRecord(b, record []byte) []byte {
	start := len(b)
	if c.aead == nil {
		return c.sum(append(beginFrame(b, recordMark, len(record)), record...), start)
	}
	c.counter++
	b = beginFrame(b, recordMark, counterSize+len(record)+c.aead.Overhead())
	b = binary.LittleEndian.AppendUint64(b, c.counter)
	return c.sum(c.aead.Seal(b, nonce(c.counter), record, nil), start)
}

// appendPending appends a record with its length before it.
func appendPending(b, record []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(record))), record...)
}

// appendRecords appends the frames of records, each with its length before it, and returns how many there were.
func (c *codec) appendRecords(b, records []byte) ([]byte, uint64) {
	count := uint64(0)
	for len(records) > 0 {
		size, n := binary.Uvarint(records)
		end := uint64(n) + size
		b = c.appendRecord(b, records[n:end])
		records = records[end:]
		count++
	}
	return b, count
}

// appendEnd appends the end mark to b. It is not sealed: who finishes a file after a crash cannot know which counters were used.
func (c *codec) appendEnd(b []byte, records uint64) []byte {
	start := len(b)
	n := binary.AppendUvarint(nil, records)
	return c.sum(append(beginFrame(b, endMark, len(n)), n...), start)
}

func nonce(counter uint64) []byte {
	return binary.LittleEndian.AppendUint64(make([]byte, 4, 12), counter)
}

// frame is what a frame's head says.
type frame struct {
	mark uint16
	sum  uint32
	head int    // bytes before the payload
	size uint64 // of the payload
}

// decodeFrame reads the head of the frame that b begins with; left is how much is left of the file.
func decodeFrame(b []byte, left int64) (f frame, err error) {
	if len(b) < frameFixed+1 {
		return f, fmt.Errorf("%w: a record is cut short", errDamaged)
	}
	f.mark, f.sum = binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint32(b[2:])
	size, n := binary.Uvarint(b[frameFixed:])
	switch {
	case f.mark != recordMark && f.mark != endMark:
		return f, fmt.Errorf("%w: there is no record", errDamaged)
	case n < 0 || n == 0 && len(b) >= frameHead || size == 0 && n > 0:
		return f, fmt.Errorf("%w: a record's length is impossible", errDamaged)
	case n == 0 || size > uint64(left)-uint64(frameFixed+n):
		return f, fmt.Errorf("%w: a record is cut short", errDamaged)
	}
	f.head, f.size = frameFixed+n, size
	return f, nil
}

// whole says whether b is the frame.
func (f frame) whole(c *codec, b []byte) bool {
	return crc32.Update(c.seed, castagnoli, b[frameFixed:uint64(f.head)+f.size]) == f.sum
}

// open returns the record of a whole frame's payload. A sealed one is opened in place.
func (c *codec) open(payload []byte) ([]byte, error) {
	if c.aead == nil {
		return payload, nil
	}
	if len(payload) <= counterSize+c.aead.Overhead() {
		return nil, fmt.Errorf("%w: a record is too short to be sealed", errDamaged)
	}
	sealed := payload[counterSize:]
	record, err := c.aead.Open(sealed[:0], nonce(binary.LittleEndian.Uint64(payload)), sealed, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: a record does not open with the file's key", errDamaged)
	}
	return record, nil
}

// frameFollows says whether a whole frame begins anywhere in b: what is before it is damage, not a torn end.
func (c *codec) frameFollows(b []byte) bool {
	for at := 0; at >= 0; {
		b = b[at:]
		f, err := decodeFrame(b[:min(len(b), frameHead)], int64(len(b)))
		if err == nil && f.whole(c, b) {
			return true
		}
		if len(b) == 0 {
			return false
		}
		b = b[1:]
		at = bytes.IndexByte(b, firstOfMark)
	}
	return false
}
