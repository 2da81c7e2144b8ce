package resp

import (
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/socket"
)

// Config is what a Server needs to know.
type Config struct {
	Address      string // for logs
	Tenant       string // of everyone, when there are no users
	Users        Users  // who may authenticate; empty: nobody needs to
	Connections  int    // at most
	MaxArguments int    // of one command
	MaxCommand   int    // bytes of one command, and so of a value
	Unfinished   int    // bytes of commands that have not arrived whole, of all connections together
	OutputBuffer int    // bytes of one reply
	IdleTimeout  time.Duration
	MemoryLimit  int64  // as clients are told; 0: none
	Version      string // of the daemon
	Log          *slog.Logger
	Metrics      *Metrics
}

// Server is the endpoint with its connections.
type Server struct {
	cfg      Config
	locker   *locker.Locker
	listener net.Listener
	table    map[string]*command
	scripts  *scripts
	login    *login
	started  time.Time
	closing  atomic.Bool
	lastID   atomic.Int64
	buffered atomic.Int64 // bytes of read buffers and queued commands, beyond what each connection may have for nothing

	conns *socket.Crowd[*conn]
}

// New returns a server for the listener, which it closes.
func New(cfg Config, listener net.Listener, l *locker.Locker) *Server {
	s := &Server{
		cfg: cfg, listener: listener, locker: l,
		table: newTable(), scripts: newScripts(), login: newLogin(cfg.Users),
		started: time.Now(), conns: socket.NewCrowd[*conn](cfg.Connections),
	}
	for name, cmd := range s.table {
		cmd.served = cfg.Metrics.served[name]
	}
	return s
}

// Serve accepts connections until the server is closed.
func (s *Server) Serve() error {
	return socket.Accept(s.listener, s.cfg.Address, s.cfg.Log, s.accept)
}

// accept starts to serve a connection, or refuses it when there are too many.
func (s *Server) accept(nc net.Conn) {
	c, err := newConn(s, nc)
	if err != nil {
		s.cfg.Log.Warn("connection refused", "resp", s.cfg.Address, "error", err)
		nc.Close()
		return
	}
	switch s.conns.Admit(c, c.serve) {
	case socket.Full:
		s.cfg.Metrics.turnedAway.Inc()
		s.cfg.Log.Warn("connection refused: too many", "resp", s.cfg.Address, "limit", s.cfg.Connections)
		c.refuse(errMaxClients)
	case socket.Closed:
		nc.Close()
	}
}

// Connections returns how many connections are open.
func (s *Server) Connections() int { return s.conns.Len() }

// Close stops accepting, lets each connection answer what it has read, and closes them.
func (s *Server) Close() {
	s.closing.Store(true)
	s.listener.Close()
	s.conns.Close(func(c *conn) { c.nc.SetReadDeadline(time.Unix(1, 0)) })
}
