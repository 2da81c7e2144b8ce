package resp

import (
	"container/list"
	"math"
	"sync"
	"time"
)

// strangers are the connections that have not authenticated yet, where one must. They may be half of all that there may be, and the
// oldest of them makes room for the next connection: whoever opens many and says nothing keeps nobody out. It is safe for concurrent use.
type strangers struct {
	mu    sync.Mutex
	limit int
	line  list.List // of *conn, the oldest first; guarded by mu
}

// newStrangers returns the strangers of an endpoint with so many connections, 0 for any number.
func newStrangers(connections int64) *strangers {
	if connections == 0 {
		return &strangers{limit: math.MaxInt}
	}
	return &strangers{limit: int(max(1, connections/2))}
}

// leave takes a connection out of the line, if it is there. It returns false when the connection had to make room: it has no
// share of the connections any more.
func (s *strangers) leave(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.place != nil {
		s.line.Remove(c.place)
		c.place = nil
	}
	return !c.dropped
}

// admitStranger takes a stranger's share of the connections, that of the oldest one if there is no other. It returns false when
// all connections have authenticated.
func (s *Server) admitStranger(c *conn) bool {
	l := s.strangers
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.line.Len() >= l.limit {
		s.dropOldest()
	}
	if !s.cfg.Connections.Take(1) && !(s.dropOldest() && s.cfg.Connections.Take(1)) {
		return false
	}
	c.place = l.line.PushBack(c)
	return true
}

// dropOldest closes the oldest stranger and gives its share back. It returns false when there is none. The caller holds strangers.mu.
func (s *Server) dropOldest() bool {
	oldest := s.strangers.line.Front()
	if oldest == nil {
		return false
	}
	c := s.strangers.line.Remove(oldest).(*conn)
	c.place, c.dropped = nil, true
	s.cfg.Connections.Give(1)
	c.nc.Close()
	s.cfg.Metrics.turnedAway.Inc()
	if unlogged, now := s.pushed.Now(time.Now()); now {
		s.cfg.Log.Warn("connection closed: it did not authenticate and others need its place", "resp", s.cfg.Address,
			"client", c.nc.RemoteAddr().String(), "limit", s.strangers.limit, "unlogged", unlogged)
	}
	return true
}
