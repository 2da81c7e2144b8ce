package resp

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coatcheck/coatcheck/sidecar/locker"
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

	mu    sync.Mutex
	conns map[*conn]struct{} // guarded by mu
	wg    sync.WaitGroup     // one for each connection
}

// New returns a server for the listener, which it closes.
func New(cfg Config, listener net.Listener, l *locker.Locker) *Server {
	s := &Server{
		cfg: cfg, listener: listener, locker: l,
		table: newTable(), scripts: newScripts(), login: newLogin(cfg.Users),
		started: time.Now(), conns: make(map[*conn]struct{}),
	}
	for name, cmd := range s.table {
		cmd.served = cfg.Metrics.served[name]
	}
	return s
}

// Serve accepts connections until the server is closed.
func (s *Server) Serve() error {
	for {
		nc, err := s.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
			s.cfg.Log.Error("cannot accept a connection: no file descriptors left; raise LimitNOFILE", "resp", s.cfg.Address)
			time.Sleep(50 * time.Millisecond) // accept would fail at once again
			continue
		case err != nil:
			return fmt.Errorf("accept on %s: %w", s.cfg.Address, err)
		}
		s.accept(nc)
	}
}

// accept starts to serve a connection, or refuses it when there are too many.
func (s *Server) accept(nc net.Conn) {
	c, err := newConn(s, nc)
	if err != nil {
		s.cfg.Log.Warn("connection refused", "resp", s.cfg.Address, "error", err)
		nc.Close()
		return
	}
	s.mu.Lock()
	full := len(s.conns) >= s.cfg.Connections
	if !full {
		s.conns[c] = struct{}{}
		s.wg.Add(1)
	}
	s.mu.Unlock()
	if full {
		s.cfg.Metrics.turnedAway.Inc()
		s.cfg.Log.Warn("connection refused: too many", "resp", s.cfg.Address, "limit", s.cfg.Connections)
		c.refuse(errMaxClients)
		return
	}
	go func() {
		defer s.wg.Done()
		c.serve()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
}

// Connections returns how many connections are open.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Close stops accepting, lets each connection answer what it has read, and closes them.
func (s *Server) Close() {
	s.closing.Store(true)
	s.listener.Close()
	s.mu.Lock()
	for c := range s.conns {
		c.nc.SetReadDeadline(time.Unix(1, 0))
	}
	s.mu.Unlock()
	s.wg.Wait()
}
