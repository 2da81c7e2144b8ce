package fpm

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// canSeeUnread says that ready can answer true on this system.
const canSeeUnread = true

// ready reports whether the peer of a Unix socket has taken all that was sent to it, has sent nothing, and
// has not closed.
func ready(nc net.Conn) bool {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	var unread int
	var sizeErr, peekErr error
	err = raw.Control(func(fd uintptr) {
		unread, sizeErr = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		var b [1]byte
		_, _, peekErr = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	})
	return err == nil && sizeErr == nil && unread == 0 && peekErr == unix.EAGAIN
}
