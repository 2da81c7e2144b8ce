// Package socket reads and writes a connection's file descriptor where package net would take detours that cost a fifth of
// a request and more (docs/performance.md, docs/decisions/0005).
//
// net announces each call to the scheduler as one that may block, which these cannot, for the descriptor does not block. And a
// write deadline arms a timer for each answer, though hardly any answer waits. Deadlines, Close and
// waiting for the descriptor stay net's.
//
// # Concurrency
//
// One goroutine may read while another writes.
package socket

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"
	"unsafe"
)

// ErrNotYet is returned by ReadNow when nothing is there to be read.
var ErrNotYet error = syscall.EAGAIN

// ErrUnread is returned by a write that the peer does not take at once when others' answers fill the budget.
var ErrUnread = errors.New("too many answers wait for clients that do not read them")

// BeingMade is what the name of a Unix socket ends with until it has its owner and its mode.
const BeingMade = ".new"

// Budget bounds how many bytes of answers wait for peers to read.
type Budget interface {
	Take(bytes int64) bool
	Give(bytes int64)
}

// Socket is a connection.
type Socket struct {
	nc       net.Conn
	raw      syscall.RawConn
	patience time.Duration

	out      []byte // what is left of a write
	writeErr error
	size     int                   // of the write
	stalled  bool                  // the peer does not take it at once: its time is limited, and it is counted in unread unless it is paid
	paid     bool                  // the caller has taken the write's size from unread
	unread   Budget                // nil: there is none
	tryWrite func(fd uintptr) bool // a method value, made once
}

// New returns a Socket of nc, whose peer may take as long as patience to accept what is written.
func New(nc net.Conn, patience time.Duration) (*Socket, error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil, errors.New("the connection has no file descriptor")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &Socket{nc: nc, raw: raw, patience: patience}
	s.tryWrite = s.writeNow
	return s, nil
}

// Charge has what the peer does not take at once counted in a budget.
func (s *Socket) Charge(b Budget) { s.unread = b }

// Raw returns the connection's descriptor for calls of other kinds.
func (s *Socket) Raw() syscall.RawConn { return s.raw }

// EachTime calls ready whenever there may be something to read, first at once, until it returns true. Ready must have
// read until ReadNow returned ErrNotYet, to be called again when more has come. That a read did not fill its buffer does not do: the
// peer's end may have come together with its last bytes, and is not told a second time. Ready must not close the connection.
func (s *Socket) EachTime(ready func(fd uintptr) bool) error { return s.raw.Read(ready) }

// ReadNow reads what is there into b, which must not be empty. It returns ErrNotYet when nothing is, and io.EOF at the end.
func ReadNow(fd uintptr, b []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		switch {
		case errno == syscall.EINTR:
		case errno != 0:
			return 0, errno
		case n == 0:
			return 0, io.EOF
		default:
			return int(n), nil
		}
	}
}

// WritePaid is Write for what the caller has taken from the budget, and gives back afterwards.
func (s *Socket) WritePaid(b []byte) error {
	s.paid = true
	defer func() { s.paid = false }()
	return s.Write(b)
}

// Write writes all of b. A peer that does not take it in time is given up.
func (s *Socket) Write(b []byte) error {
	s.out, s.size, s.writeErr = b, len(b), nil
	err := s.raw.Write(s.tryWrite)
	if err == nil {
		err = s.writeErr
	}
	if s.stalled {
		s.stalled = false
		_ = s.nc.SetWriteDeadline(time.Time{}) // fails only when the connection is closed
		if s.charges() {
			s.unread.Give(int64(len(b)))
		}
	}
	s.out = nil
	return err
}

// writeNow is one try. It returns false when the peer has to read first.
func (s *Socket) writeNow(fd uintptr) bool {
	for len(s.out) > 0 {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&s.out[0])), uintptr(len(s.out)),
			syscall.MSG_NOSIGNAL, 0, 0)
		switch {
		case errno == syscall.EINTR:
		case errno == syscall.EAGAIN:
			return !s.stall()
		case errno != 0:
			s.writeErr = errno
			return true
		default:
			s.out = s.out[n:]
		}
	}
	return true
}

// charges says whether the write is to be counted in unread while the peer does not take it.
func (s *Socket) charges() bool { return s.unread != nil && !s.paid }

// stall begins to wait for the peer to read. It returns false when there is no room for what waits already.
func (s *Socket) stall() bool {
	if s.stalled {
		return true
	}
	if s.charges() && !s.unread.Take(int64(s.size)) {
		s.writeErr = ErrUnread
		return false
	}
	s.stalled = true
	_ = s.nc.SetWriteDeadline(time.Now().Add(s.patience))
	return true
}
