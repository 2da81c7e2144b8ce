package resp

import (
	"io"
	"net"
	"syscall"
	"time"
	"unsafe"
)

// socket reads and writes a connection's descriptor by itself. Three things cost a third of a command otherwise
// (docs/decisions/0005). net announces each call to the scheduler as one that may block, which these cannot, for the
// descriptor does not block. Its Read finds out that nothing more is there by a second read, while here a read that
// did not fill its buffer has said so. And a write deadline arms a timer for each answer, though hardly any answer
// waits. Deadlines, Close and waiting for the descriptor stay net's.
type socket struct {
	nc  net.Conn
	raw syscall.RawConn

	left     []byte // of what is being written
	failed   error  // of the write
	deadline bool   // of the write was set
	tryWrite func(fd uintptr) bool
}

func newSocket(nc net.Conn) (*socket, error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil, syscall.EINVAL
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{nc: nc, raw: raw}
	s.tryWrite = s.writeNow // a method value, made once
	return s, nil
}

// errWouldBlock is returned when nothing is there to be read.
var errWouldBlock = syscall.EAGAIN

// readNow reads what is there into b, which must not be empty.
func readNow(fd uintptr, b []byte) (int, error) {
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

// eachTime calls ready whenever there may be something to read, first at once, until it returns true. Ready must have
// read everything that is there, to be called again when more has come.
func (s *socket) eachTime(ready func(fd uintptr) bool) error { return s.raw.Read(ready) }

// write writes all of b. A peer that does not take it in time is given up.
func (s *socket) write(b []byte) error {
	s.left, s.failed = b, nil
	err := s.raw.Write(s.tryWrite)
	if err == nil {
		err = s.failed
	}
	if s.deadline {
		s.deadline = false
		s.nc.SetWriteDeadline(time.Time{})
	}
	s.left = nil
	return err
}

// writeNow is one try. It returns false when the peer has to read first.
func (s *socket) writeNow(fd uintptr) bool {
	for len(s.left) > 0 {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&s.left[0])), uintptr(len(s.left)),
			syscall.MSG_NOSIGNAL, 0, 0)
		switch {
		case errno == syscall.EINTR:
		case errno == syscall.EAGAIN:
			if !s.deadline {
				s.deadline = true
				s.nc.SetWriteDeadline(time.Now().Add(writeTimeout))
			}
			return false
		case errno != 0:
			s.failed = errno
			return true
		default:
			s.left = s.left[n:]
		}
	}
	return true
}
