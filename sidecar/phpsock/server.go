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

	"golang.org/x/sys/unix"

	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/socket"
	"github.com/coatcheck/coatcheck/sidecar/tenant"
	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// Config is what a Server needs to know.
type Config struct {
	Path string // of the socket
	File File   // of the socket
	// Listener is the socket when it is open already. It is somebody else's: its file is not removed.
	Listener    net.Listener
	Tenant      *tenant.Tenant // whose socket this is
	Connections *tenant.Quota  // of all servers together (limits.connections)
	MaxFrame    int            // bytes
	Timeout     time.Duration  // of hello, and of a message that was begun
	Version     string         // of the daemon, told to clients
	// Status answers server.status, for the tenant. It may take its time.
	Status func(context.Context) (wire.Pairs, error)
	// Cluster is this host's place in a cluster; nil: there are no others.
	Cluster Cluster
	Log     *slog.Logger
	Metrics *Metrics
}

// File is what the file of a socket is like.
type File struct {
	Mode  fs.FileMode
	Owner string // name or number; empty: the process' own
	Group string // name or number; empty: the process' own
}

// Server is one listening socket with its connections.
type Server struct {
	cfg      Config
	locker   *locker.Locker
	listener net.Listener
	now      atomic.Uint32 // a phase
	patience time.Duration // how long a client may take to accept an answer

	stop sync.Once // of listening

	conns   *socket.Crowd[*conn]
	buffers sync.Pool     // of *buffers that no connection needs now
	crowded socket.Seldom // how often it is logged that all connections are taken
	garbled socket.Seldom // that one does not speak the protocol
	busied  socket.Seldom // that a session's lock was not granted
	denied  socket.Seldom // that a session's write was refused
	forced  socket.Seldom // and that a lock was released by force
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
		if listener, err = ListenUnix(cfg.Path, cfg.File); err != nil {
			return nil, err
		}
	}
	return &Server{
		cfg: cfg, locker: l, listener: listener, patience: writeTimeout, conns: socket.NewCrowd[*conn](),
		buffers: sync.Pool{New: func() any { return &buffers{in: make([]byte, 0, firstBuffer)} }},
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

// ListenUnix opens a socket. It replaces a socket file that nobody listens on
// any more. The caller removes the file behind Close.
func ListenUnix(path string, file File) (net.Listener, error) {
	if err := RemoveStale(path); err != nil {
		return nil, err
	}
	l, err := listen(path, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("socket %s: its directory does not exist; make it, or choose another path", path)
	case errors.Is(err, errNotOurs):
		return nil, fmt.Errorf("socket %s: %w", path, err)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("socket %s: this user may not make it there; give the user the directory, or choose another path", path)
	case err != nil:
		return nil, fmt.Errorf("listen on socket %s: %w", path, err)
	}
	return l, nil
}

// listen opens the socket so that nobody can connect before its mode and owner are set: under a private
// umask, and by a rename.
func listen(path string, file File) (net.Listener, error) {
	ready := path + socket.BeingMade
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
	if err := publish(ready, path, file); err != nil {
		l.Close()
		os.Remove(ready)
		return nil, err
	}
	return l, nil
}

// errNotOurs is returned when a socket cannot be given to a user or group.
var errNotOurs = errors.New("it cannot be given away")

// publish gives the socket at ready its owner, mode and name.
func publish(ready, path string, file File) error {
	if file.Owner != "" {
		uid, err := userID(file.Owner)
		if err != nil {
			return err
		}
		if err := os.Lchown(ready, uid, -1); err != nil {
			return fmt.Errorf("%w: user %s shall own it, and only root can give it to another user than itself, which is number %d: %v",
				errNotOurs, file.Owner, os.Geteuid(), errors.Unwrap(err))
		}
	}
	if file.Group != "" {
		gid, err := groupID(file.Group)
		if err != nil {
			return err
		}
		if err := os.Lchown(ready, -1, gid); err != nil {
			return fmt.Errorf("%w: group %s shall own it, and the daemon's user, number %d, must be a member of the group, or root: %v",
				errNotOurs, file.Group, os.Geteuid(), errors.Unwrap(err))
		}
	}
	if err := chmodSocket(ready, file.Mode); err != nil {
		return err
	}
	return os.Rename(ready, path)
}

// errNotSocket is returned when somebody has put something else in a socket's place.
var errNotSocket = errors.New("another file has taken its place while it was made")

// chmodSocket sets the mode of a socket, and of nothing that a link in its place leads to.
func chmodSocket(path string, mode fs.FileMode) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return errNotSocket
	}
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode) // the way to the mode of a file that is only looked at
}

func userID(name string) (int, error) {
	if uid, err := strconv.Atoi(name); err == nil {
		return uid, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, fmt.Errorf("find its owner: %w", err)
	}
	return strconv.Atoi(u.Uid)
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

// accept starts to serve a connection, or tells it why not.
func (s *Server) accept(nc *net.UnixConn) {
	c, err := newConn(s, nc)
	if err != nil { // it was closed meanwhile
		nc.Close()
		return
	}
	if e := s.admit(c.peer); e != nil {
		c.refuse(e)
		return
	}
	if !s.conns.Admit(c, c.serve) {
		s.dismiss()
		nc.Close()
	}
}

// admit takes the peer's share of the quotas, or says why there is none.
func (s *Server) admit(p peer) *wire.Error {
	t := s.cfg.Tenant
	switch {
	case !t.Allows(p.uid):
		return s.stranger(p)
	case !s.cfg.Connections.Take(1):
		s.cfg.Metrics.turnedAway.Inc()
		if unlogged, now := s.crowded.Now(time.Now()); now {
			s.cfg.Log.Warn("connection refused: too many", "socket", s.cfg.Path, "pid", p.pid,
				"limit", s.cfg.Connections.Limit(), "unlogged", unlogged)
		}
		return tooMany("limits.connections", "on this daemon", s.cfg.Connections.Limit())
	case !t.Connections.Take(1):
		s.cfg.Connections.Give(1)
		s.refused(tenant.Connections, "connection refused: the tenant has too many", "pid", p.pid, "limit", t.Connections.Limit())
		return tooMany(t.Setting("connections"), "of tenant "+t.Name, t.Connections.Limit())
	}
	return nil
}

// dismiss gives back what admit took.
func (s *Server) dismiss() {
	s.cfg.Tenant.Connections.Give(1)
	s.cfg.Connections.Give(1)
}

// stranger is the error for a user who is not allowed.
func (s *Server) stranger(p peer) *wire.Error {
	setting := s.cfg.Tenant.Setting("allowed_uids")
	s.refused(tenant.UID, "connection refused: the user is not allowed", "pid", p.pid, "uid", p.uid, "setting", setting)
	return &wire.Error{
		Code: wire.Refused, Message: fmt.Sprintf("the user with number %d may not use this socket (%s)", p.uid, setting),
		Details: wire.Pairs{{Key: "reason", Value: tenant.UID.String()}, {Key: "uid", Value: p.uid}, {Key: "setting", Value: setting}},
	}
}

func tooMany(setting, whose string, limit int64) *wire.Error {
	return &wire.Error{
		Code: wire.Unavailable, Message: fmt.Sprintf("%d connections %s are open, which is the limit (%s)", limit, whose, setting),
		Details: wire.Pairs{
			{Key: "reason", Value: tenant.Connections.String()}, {Key: "limit", Value: limit}, {Key: "setting", Value: setting},
		},
	}
}

// refused counts a refusal to the tenant, and logs it now and then.
func (s *Server) refused(why tenant.Reason, message string, attrs ...any) {
	t := s.cfg.Tenant
	t.Refuse(why)
	if unlogged, now := t.Logs(why); now {
		s.cfg.Log.Warn(message, append(attrs, "socket", s.cfg.Path, "tenant", t.Name, "unlogged", unlogged)...)
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
