package phpsock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/socket"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// Config is what a Server needs to know.
type Config struct {
	Path  string      // of the socket
	Mode  fs.FileMode // of the socket
	Group string      // of the socket; empty: the process' own
	// Listener is the socket when it is open already. It is somebody else's: its file is not removed.
	Listener    net.Listener
	Tenant      string // whose socket this is
	MaxFrame    int    // bytes
	Connections int    // at most
	Version     string // of the daemon, told to clients
	// Status answers server.status. It may take its time.
	Status  func(context.Context) (wire.Pairs, error)
	Log     *slog.Logger
	Metrics *Metrics
}

// Server is one listening socket with its connections.
type Server struct {
	cfg      Config
	locker   *locker.Locker
	listener net.Listener
	now      atomic.Uint32 // a phase
	patience time.Duration // how long a client may take to accept an answer

	stop sync.Once // of listening

	conns *socket.Crowd[*conn]
}

// phase is what a server is doing.
type phase uint32

const (
	starting phase = iota
	serving
	draining
)

func (s *Server) phase() phase { return phase(s.now.Load()) }

// ErrStarting is the answer to requests that come before Ready is called.
var ErrStarting = errors.New("the daemon is starting")

// Ready begins to serve requests, which are answered with ErrStarting until then.
func (s *Server) Ready() { s.now.CompareAndSwap(uint32(starting), uint32(serving)) }

// Listen opens the socket, unless the configuration has one. A socket file that nobody listens on any more is replaced; one that is in use is an error.
func Listen(cfg Config, l *locker.Locker) (*Server, error) {
	listener := cfg.Listener
	if listener == nil {
		var err error
		if listener, err = ListenUnix(cfg.Path, cfg.Mode, cfg.Group); err != nil {
			return nil, err
		}
	}
	return &Server{
		cfg: cfg, locker: l, listener: listener, patience: writeTimeout, conns: socket.NewCrowd[*conn](cfg.Connections),
	}, nil
}

// RemoveStale removes the socket file of a daemon that did not end cleanly.
func RemoveStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at socket %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("socket %s: a file of that name is there and is not a socket; remove it or choose another path", path)
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
		return fmt.Errorf("socket %s is in use: another daemon listens on it", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("socket %s: cannot tell whether it is in use: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the stale socket %s: %w", path, err)
	}
	return nil
}

// ListenUnix opens a socket of a mode and a group, the process' own if empty. It replaces a socket file that nobody listens on
// any more. The caller removes the file behind Close.
func ListenUnix(path string, mode fs.FileMode, group string) (net.Listener, error) {
	if err := RemoveStale(path); err != nil {
		return nil, err
	}
	l, err := listen(path, mode, group)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("socket %s: its directory does not exist; make it, or choose another path", path)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("socket %s: this user may not make it there; give the user the directory, or choose another path", path)
	case err != nil:
		return nil, fmt.Errorf("listen on socket %s: %w", path, err)
	}
	return l, nil
}

// listen opens the socket so that nobody can connect before its mode and group are set: under a private
// umask, and by a rename.
func listen(path string, mode fs.FileMode, group string) (net.Listener, error) {
	ready := path + ".new"
	if err := os.Remove(ready); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	old := syscall.Umask(0o177)
	l, err := net.Listen("unix", ready)
	syscall.Umask(old)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // it has another name by then; Close removes that
	if err := publish(ready, path, mode, group); err != nil {
		l.Close()
		os.Remove(ready)
		return nil, err
	}
	return l, nil
}

// publish gives the socket at ready its group, mode and name.
func publish(ready, path string, mode fs.FileMode, group string) error {
	if group != "" {
		gid, err := groupID(group)
		if err != nil {
			return err
		}
		if err := os.Chown(ready, -1, gid); err != nil {
			return fmt.Errorf("give it to group %s: %w", group, err)
		}
	}
	if err := os.Chmod(ready, mode); err != nil {
		return err
	}
	return os.Rename(ready, path)
}

func groupID(name string) (int, error) {
	if gid, err := strconv.Atoi(name); err == nil {
		return gid, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("find its group: %w", err)
	}
	return strconv.Atoi(g.Gid)
}

// Serve accepts connections until the server is closed or drained.
func (s *Server) Serve() error {
	return socket.Accept(s.listener, s.cfg.Path, s.cfg.Log, func(nc net.Conn) { s.accept(nc.(*net.UnixConn)) })
}

// accept starts to serve a connection, or refuses it when there are too many.
func (s *Server) accept(nc *net.UnixConn) {
	c, err := newConn(s, nc)
	if err != nil { // it was closed meanwhile
		nc.Close()
		return
	}
	switch s.conns.Admit(c, c.serve) {
	case socket.Full:
		s.cfg.Metrics.turnedAway.Inc()
		s.cfg.Log.Warn("connection refused: too many", "socket", s.cfg.Path, "pid", c.peer.pid, "limit", s.cfg.Connections)
		c.refuse(&wire.Error{Code: wire.Unavailable, Message: fmt.Sprintf(
			"%d connections are open on this socket, which is the limit (limits.connections)", s.cfg.Connections)})
	case socket.Closed:
		nc.Close()
	}
}

// Connections returns how many connections are open.
func (s *Server) Connections() int { return s.conns.Len() }

// Drain stops accepting, refuses new work, tells those who wait, and gives those who hold bound locks until
// ctx ends to commit and release.
func (s *Server) Drain(ctx context.Context) {
	s.now.Store(uint32(draining))
	s.stopListening()
	s.locker.Drain()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for s.locker.Held() > 0 || s.locker.Waiting() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// stopListening removes the socket and closes the listener, once. The name goes first: when nobody listens on it any more,
// another daemon may have taken it.
func (s *Server) stopListening() {
	s.stop.Do(func() {
		if s.cfg.Listener == nil {
			os.Remove(s.cfg.Path)
		}
		s.listener.Close()
	})
}

// Close ends the server and its connections. Locks that are held stay held until their leases end.
func (s *Server) Close() {
	s.now.Store(uint32(draining))
	s.stopListening()
	s.conns.Close((*conn).abandon)
}
