package fpm

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The parts of FastCGI 1.0 that a responder's client needs. Every request has id 1, being the only one on its
// connection.
const (
	fcgiVersion = 1
	requestID   = 1

	typeBeginRequest = 1
	typeEndRequest   = 3
	typeParams       = 4
	typeStdin        = 5
	typeStdout       = 6
	typeStderr       = 7

	roleResponder = 1

	statusComplete   = 0
	statusOverloaded = 2

	recordHeaderLen = 8
	endRequestLen   = 8

	// maxRecord is the most php-fpm takes in one record of params, padding included. It is a
	// multiple of eight, so a full record needs no padding.
	maxRecord = 0xfff8
)

// appendRecordHeader appends the header of a record with the given length of content.
func appendRecordHeader(b []byte, kind byte, length int) []byte {
	return append(b, fcgiVersion, kind, 0, requestID, byte(length>>8), byte(length), 0, 0)
}

// appendBegin appends the record that opens a request.
func appendBegin(b []byte) []byte {
	b = appendRecordHeader(b, typeBeginRequest, 8)
	const flags = 0 // php-fpm closes the connection after its answer
	return append(b, 0, roleResponder, flags, 0, 0, 0, 0, 0)
}

// appendParam appends one name and value in the form of the params stream.
func appendParam(b []byte, name, value string) []byte {
	b = appendLength(b, len(name))
	b = appendLength(b, len(value))
	b = append(b, name...)
	return append(b, value...)
}

func appendLength(b []byte, n int) []byte {
	if n < 1<<7 {
		return append(b, byte(n))
	}
	return binary.BigEndian.AppendUint32(b, uint32(n)|1<<31)
}

// appendStdin appends content as records of the stdin stream.
func appendStdin(b, content []byte) []byte {
	for len(content) > 0 {
		n := min(len(content), maxRecord)
		b = appendRecordHeader(b, typeStdin, n)
		b = append(b, content[:n]...)
		content = content[n:]
	}
	return b
}

// appendStdinEnd appends the empty record that ends the stdin stream.
func appendStdinEnd(b []byte) []byte { return appendRecordHeader(b, typeStdin, 0) }

// stdout is the stdout stream of one answer, taken out of its records. What arrives on the stderr
// stream goes to onStderr, in pieces that are valid only during the call.
type stdout struct {
	records  *bufio.Reader
	onStderr func([]byte)

	left    int   // bytes of content of the current stdout record not read yet
	padding int   // bytes to skip after them
	err     error // why the stream ended; io.EOF after a proper end
}

// Read reads from the stream. It returns io.EOF after a proper end of the request, ErrBrokenOff if
// the connection ended before it, ErrBusy if php-fpm is overloaded and ErrMalformed if the bytes are not FastCGI.
// Other errors are those of the connection.
func (s *stdout) Read(p []byte) (int, error) {
	for s.left == 0 && s.err == nil {
		s.err = s.nextRecord()
	}
	if s.left == 0 {
		return 0, s.err
	}
	n, err := s.records.Read(p[:min(len(p), s.left)])
	s.left -= n
	if err != nil {
		s.left, s.err = 0, brokenOff(err)
	}
	return n, s.err
}

// wouldBlock reports whether the next Read has to wait for php-fpm.
func (s *stdout) wouldBlock() bool {
	if s.err != nil {
		return false
	}
	if s.left > 0 {
		return s.records.Buffered() == 0
	}
	return s.records.Buffered() < s.padding+recordHeaderLen
}

// nextRecord reads up to the content of the next stdout record, or to the end of the request.
func (s *stdout) nextRecord() error {
	if _, err := s.records.Discard(s.padding); err != nil {
		return brokenOff(err)
	}
	s.padding = 0
	h, err := s.records.Peek(recordHeaderLen)
	if err != nil {
		return brokenOff(err)
	}
	if h[0] != fcgiVersion || h[2] != 0 || h[3] != requestID {
		return fmt.Errorf("%w: record header % x", ErrMalformed, h)
	}
	kind, length := h[1], int(h[4])<<8|int(h[5])
	s.padding = int(h[6])
	s.records.Discard(recordHeaderLen)
	switch kind {
	case typeStdout:
		s.left = length
		return nil
	case typeStderr:
		return s.readStderr(length)
	case typeEndRequest:
		return s.readEnd(length)
	}
	return fmt.Errorf("%w: record of type %d in an answer", ErrMalformed, kind)
}

func (s *stdout) readStderr(length int) error {
	for length > 0 {
		if s.records.Buffered() == 0 {
			if _, err := s.records.Peek(1); err != nil {
				return brokenOff(err)
			}
		}
		n := min(length, s.records.Buffered())
		piece, _ := s.records.Peek(n)
		s.onStderr(piece)
		s.records.Discard(n)
		length -= n
	}
	return nil
}

// readEnd reads the content and padding of the last record. It returns io.EOF if all is well.
func (s *stdout) readEnd(length int) error {
	if length != endRequestLen {
		return fmt.Errorf("%w: end of request with %d bytes", ErrMalformed, length)
	}
	body, err := s.records.Peek(endRequestLen + s.padding)
	if err != nil {
		return brokenOff(err)
	}
	status := body[4]
	s.records.Discard(len(body))
	s.padding = 0
	switch status {
	case statusComplete:
		return io.EOF
	case statusOverloaded:
		return fmt.Errorf("%w: it refused the request as overloaded", ErrBusy)
	}
	return fmt.Errorf("%w: end of request with protocol status %d", ErrMalformed, status)
}

// brokenOff turns the end of a connection in the middle of an answer into ErrBrokenOff.
func brokenOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isReset(err) {
		return fmt.Errorf("%w: %w", ErrBrokenOff, io.ErrUnexpectedEOF)
	}
	return err
}
