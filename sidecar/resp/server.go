package resp

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/locker"
	"github.com/coatcheck/coatcheck/sidecar/socket"
	"github.com/coatcheck/coatcheck/sidecar/tenant"
)

// Config is what a Server needs to know.
type Config struct {
	Address      string        // for logs
	Tenants      *tenant.Set   // those of the users
	Tenant       string        // of everyone, when there are no users
	Users        Users         // who may authenticate; empty: nobody needs to
	Connections  *tenant.Quota // of all tenants together (redis.connections)
	MaxArguments int           // of one command
	MaxCommand   int           // bytes of one command, and so of a value
	OutputBuffer int           // bytes of one reply
	IdleTimeout  time.Duration
	Timeout      time.Duration // of a command that was begun, beside a second for each MiB
	Version      string        // of the daemon
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

	stop     chan struct{} // closed by Close
	stopOnce sync.Once

	conns     *socket.Crowd[*conn]
	strangers *strangers
	buffers   sync.Pool // of *buffers that no connection needs now

	// How often it is logged
	crowded socket.Seldom // that all connections are taken,
	pushed  socket.Seldom // that a stranger made room,
	late    socket.Seldom // that one did not authenticate in time,
	wrong   socket.Seldom // that a password is wrong,
	garbled socket.Seldom // that one does not speak the protocol,
	browsed socket.Seldom // that one speaks HTTP,
	broken  socket.Seldom // and that a connection cannot be served
}

// New returns a server for the listener, which it closes.
func New(cfg Config, listener net.Listener, l *locker.Locker) *Server {
	stop := make(chan struct{})
	s := &Server{
		cfg: cfg, listener: listener, locker: l, stop: stop,
		table: newTable(), scripts: newScripts(), login: newLogin(cfg.Users, stop),
		started: time.Now(), conns: socket.NewCrowd[*conn](), strangers: newStrangers(cfg.Connections.Limit()),
		buffers: sync.Pool{New: func() any { return &buffers{in: make([]byte, 0, firstBuffer)} }},
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
		if unlogged, now := s.broken.Now(time.Now()); now {
			s.cfg.Log.Warn("connection refused", "resp", s.cfg.Address, "error", err, "unlogged", unlogged)
		}
		nc.Close()
		return
	}
	if f := s.admit(c); f != "" {
		c.refuse(f)
		return
	}
	if !s.conns.Admit(c, c.serve) {
		c.dismiss()
		nc.Close()
	}
}

// admit takes the connection's share of the quotas, or says why there is none.
func (s *Server) admit(c *conn) failure {
	known := s.login.open()
	if known && !s.cfg.Connections.Take(1) || !known && !s.admitStranger(c) {
		s.cfg.Metrics.turnedAway.Inc()
		if unlogged, now := s.crowded.Now(time.Now()); now {
			s.cfg.Log.Warn("connection refused: too many", "resp", s.cfg.Address, "limit", s.cfg.Connections.Limit(), "unlogged", unlogged)
		}
		return errMaxClients
	}
	if !known {
		return ""
	}
	f := c.welcome(defaultUser, s.cfg.Tenant)
	if f != "" {
		s.cfg.Connections.Give(1)
	}
	return f
}

// refused counts a refusal to a tenant, and logs it now and then.
func (s *Server) refused(t *tenant.Tenant, why tenant.Reason, message string, attrs ...any) {
	t.Refuse(why)
	if unlogged, now := t.Logs(why); now {
		s.cfg.Log.Warn(message, append(attrs, "resp", s.cfg.Address, "tenant", t.Name, "unlogged", unlogged)...)
	}
}

// Connections returns how many connections are open.
func (s *Server) Connections() int { return s.conns.Len() }

// Close stops accepting, lets each connection answer what it has read, and closes them.
func (s *Server) Close() {
	s.closing.Store(true)
	s.stopOnce.Do(func() { close(s.stop) })
	s.listener.Close()
	s.conns.Close(func(c *conn) { c.nc.SetReadDeadline(time.Unix(1, 0)) })
}
