package phpsock

import (
	"io"
	"net"
	"syscall"
	"time"
	"unsafe"
)

// socket reads and writes a connection's file descriptor by itself where net would take two detours, which cost a fifth of a
// request (docs/performance.md): net announces each call to the scheduler as one that may block, which
// these cannot, for the descriptor does not block; and a write deadline arms a timer for each answer, though hardly any answer waits.
// Deadlines, Close and waiting for the descriptor stay net's.
//
// One goroutine may read while another writes.
type socket struct {
	nc  *net.UnixConn
	raw syscall.RawConn
	// patience is how long the peer may take to accept an answer.
	patience time.Duration

	in, out  transfer
	tryRead  func(fd uintptr) bool // method values, made once
	tryWrite func(fd uintptr) bool
}

// transfer is a read or a write under way.
type transfer struct {
	b        []byte // what is left of it
	n        int
	err      error
	deadline bool // was set
}

func newSocket(nc *net.UnixConn, patience time.Duration) (*socket, error) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{nc: nc, raw: raw, patience: patience}
	s.tryRead, s.tryWrite = s.readNow, s.writeNow
	return s, nil
}

// Read reads what is there into b, which must not be empty, and waits for something to be there.
func (s *socket) Read(b []byte) (int, error) {
	s.in = transfer{b: b}
	if err := s.raw.Read(s.tryRead); err != nil {
		return 0, err
	}
	return s.in.n, s.in.err
}

// readNow is one try. It returns false when there is nothing to read yet.
func (s *socket) readNow(fd uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&s.in.b[0])), uintptr(len(s.in.b)))
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			s.in.err = errno
		case n == 0:
			s.in.err = io.EOF
		default:
			s.in.n = int(n)
		}
		return true
	}
}

// Write writes all of b. A peer that does not take it in time is given up.
func (s *socket) Write(b []byte) error {
	s.out = transfer{b: b}
	err := s.raw.Write(s.tryWrite)
	if err == nil {
		err = s.out.err
	}
	if s.out.deadline {
		s.nc.SetWriteDeadline(time.Time{})
	}
	s.out.b = nil
	return err
}

// writeNow is one try. It returns false when the peer has to read first.
func (s *socket) writeNow(fd uintptr) bool {
	for len(s.out.b) > 0 {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&s.out.b[0])), uintptr(len(s.out.b)),
			syscall.MSG_NOSIGNAL, 0, 0)
		switch {
		case errno == syscall.EINTR:
		case errno == syscall.EAGAIN:
			if !s.out.deadline {
				s.out.deadline = true
				s.nc.SetWriteDeadline(time.Now().Add(s.patience))
			}
			return false
		case errno != 0:
			s.out.err = errno
			return true
		default:
			s.out.b = s.out.b[n:]
		}
	}
	return true
}
