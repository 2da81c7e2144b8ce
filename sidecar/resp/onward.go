package resp

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Why a command that takes long is given up.
const (
	errStopping    failure = "ERR the daemon is stopping; the command was given up"
	errGone        failure = "ERR the client has gone; the command was given up"
	errLongPattern failure = "ERR a pattern has 1024 bytes at most"
	errManySteps   failure = "ERR the pattern takes too long on these keys; use a shorter one, or SCAN and look at the keys yourself"
)

// onward is called now and then in the middle of a command that takes long, inside of the connection's turn. It lets others have theirs, and
// says why not to go on: nobody waits for the answer any more. The connection then ends.
func (c *conn) onward() failure {
	c.turn.Leave()
	runtime.Gosched()
	c.turn.Enter()
	f := c.abandoned()
	c.quit = c.quit || f != ""
	return f
}

// abandoned says why nobody waits for an answer.
func (c *conn) abandoned() failure {
	switch {
	case c.s.closing.Load():
		return errStopping
	case c.gone():
		return errGone
	}
	return ""
}

// gone says whether the peer has closed the connection, or its half: over TCP the two cannot be told apart.
func (c *conn) gone() bool {
	gone := false
	err := c.socket.Raw().Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(poll, 0)
		gone = err == nil && n > 0 && poll[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return gone || err != nil
}
