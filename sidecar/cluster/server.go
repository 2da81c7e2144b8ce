package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	maxHandshakes = 64      // of strangers at a time
	maxReason     = 1 << 10 // bytes of an error's text that are sent
	answerQueue   = 64      // answers that wait to be written
	acceptPause   = 100 * time.Millisecond
)

// server lets peers in and serves what they ask.
type server struct {
	c          *Cluster
	ln         net.Listener
	handshakes chan struct{} // holds a place for each connection whose peer is not known yet

	mu     sync.Mutex
	guests map[string]*guest // by node id; guarded by mu
}

// guest is a peer that asks, over one connection or, for a moment, over an old one and its successor.
type guest struct {
	places  chan struct{} // holds one for each question that is being served, or waits for its turn
	turn    chan struct{} // held while an ordered question is being served
	current *conn         // guarded by server.mu
	conns   int           // guarded by server.mu
}

func newServer(c *Cluster, ln net.Listener) *server {
	return &server{c: c, ln: ln, handshakes: make(chan struct{}, maxHandshakes), guests: make(map[string]*guest)}
}

// accept lets peers in until the listener is closed.
func (s *server) accept(ctx context.Context) {
	for {
		nc, err := s.ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			s.c.cfg.Log.Warn("accept a peer connection", "error", err)
			s.wait(ctx)
			continue
		}
		select {
		case s.handshakes <- struct{}{}:
			s.c.running.Go(func() { s.serve(ctx, nc) })
		default:
			nc.Close()
			s.refused(nc, fmt.Errorf("%d handshakes are under way", maxHandshakes))
		}
	}
}

// wait is for a lack of file descriptors to pass.
func (s *server) wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(acceptPause):
	}
}

func (s *server) refused(nc net.Conn, why error) {
	if unlogged, now := s.c.refusals.Now(s.c.cfg.Now()); now {
		s.c.cfg.Log.Warn("a peer connection is refused", "from", nc.RemoteAddr().String(), "reason", why, "unlogged", unlogged)
	}
}

// serve serves a connection from its first byte to its last.
func (s *server) serve(ctx context.Context, nc net.Conn) {
	defer nc.Close()
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	co, err := s.admit(ctx, nc)
	<-s.handshakes
	if err != nil {
		if ctx.Err() == nil {
			s.refused(nc, err)
		}
		return
	}
	g := s.enter(co)
	defer s.leave(g, co)
	co.review(s.c.trust.Load()) // a Reload since the handshake did not see it
	if err := co.send(frame{kind: welcome, body: s.c.greeting().encode()}); err != nil {
		return
	}
	co.tls.NetConn().SetDeadline(time.Time{})
	s.c.met(co.peer)
	s.converse(ctx, g, co)
}

// admit is the asked side of the handshakes, up to the welcome.
func (s *server) admit(ctx context.Context, nc net.Conn) (*conn, error) {
	nc.SetDeadline(time.Now().Add(s.c.cfg.DialTimeout))
	trust := s.c.trust.Load()
	t := tls.Server(nc, trust.tls())
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("handshake as %s: %w", s.c.cfg.protocol, err)
	}
	node, err := trust.proof(t.ConnectionState())
	if err != nil {
		return nil, err
	}
	co := newConn(t, trust, &s.c.cfg)
	if err := co.readGreeting(hello, node); err != nil {
		return nil, fmt.Errorf("hello of %s: %w", node, err)
	}
	p := &co.peer
	why := s.c.set.conflict(p.ID, p.Boot, p.Addr, p.Gossip)
	switch {
	case why != "":
	case s.c.set.hasLeft(p.ID, p.Boot):
		why = "it has left; start it again to have it back"
	case p.ID == s.c.set.self.ID:
		why = "this host is speaking to itself"
	}
	if why != "" {
		_ = co.send(frame{kind: stranger, body: []byte(why)}) // it is refused in any case
		return nil, fmt.Errorf("hello of %s: %s", node, why)
	}
	return co, nil
}

// enter makes the connection its peer's only one. What was read of the one before and not begun is not served any more.
func (s *server) enter(co *conn) *guest {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.guests[co.peer.ID]
	if g == nil {
		g = &guest{places: make(chan struct{}, s.c.cfg.MaxServing), turn: make(chan struct{}, 1)}
		s.guests[co.peer.ID] = g
	}
	if g.current != nil {
		g.current.end(errors.New("the peer has connected anew"))
	}
	g.current = co
	g.conns++
	return g
}

// leave ends a connection.
func (s *server) leave(g *guest, co *conn) {
	co.end(ErrClosed)
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.current == co {
		g.current = nil
	}
	if g.conns--; g.conns == 0 {
		delete(s.guests, co.peer.ID)
	}
}

// conns returns the connections of all guests.
func (s *server) conns() (all []*conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.guests {
		if g.current != nil {
			all = append(all, g.current)
		}
	}
	return all
}

// visit is one connection of a guest.
type visit struct {
	*conn
	*guest
	c       *Cluster
	ctx     context.Context // ends with the connection
	answers chan frame
	lane    chan frame // ordered questions that wait for their turn
	running sync.WaitGroup
}

// converse serves questions until the connection ends, and returns when the last one that was begun has been served.
func (s *server) converse(ctx context.Context, g *guest, co *conn) {
	ctx, cancel := context.WithCancel(ctx)
	v := &visit{conn: co, guest: g, c: s.c, ctx: ctx, answers: make(chan frame, answerQueue), lane: make(chan frame, s.c.cfg.MaxServing)}
	v.running.Go(func() {
		writeQueue(co, v.answers, func(f frame) (frame, bool) { return f, true }, false)
	})
	v.running.Go(v.serveLane)
	co.end(v.readQuestions())
	cancel()
	v.running.Wait()
	for range len(v.lane) { // they are not served any more
		<-v.places
	}
}

// readQuestions takes questions until there are no more.
func (v *visit) readQuestions() error {
	for {
		f, err := v.read()
		if err != nil {
			return err
		}
		if v.isEnded() { // what is in the buffer still
			return v.err
		}
		switch f.kind {
		case question, ordered:
			v.begin(f)
		case notice:
			err = v.takeNotice(f)
		case ping:
			v.reply(frame{kind: pong})
		default:
			err = fmt.Errorf("%w: kind %d is no question", errFrame, f.kind)
		}
		if err != nil {
			return err
		}
	}
}

// begin has a question served if there is a place.
func (v *visit) begin(f frame) {
	select {
	case v.places <- struct{}{}:
	default:
		v.reply(frame{refusal, f.number, fmt.Appendf(nil, "%d questions of this peer are being served", cap(v.places))})
		return
	}
	if f.kind == ordered {
		v.lane <- f // has as much room as there are places
		return
	}
	v.running.Go(func() { v.serve(f) })
}

// serve serves a question and gives its place back.
func (v *visit) serve(f frame) {
	defer func() { <-v.places }()
	v.reply(v.c.answer(v.ctx, v.peer.ID, f, min(v.limit, v.peer.MaxFrame)))
}

// serveLane serves ordered questions, one at a time of all connections of the peer.
func (v *visit) serveLane() {
	for {
		select {
		case <-v.ended:
			return
		case f := <-v.lane:
			v.turn <- struct{}{}
			if v.isEnded() { // a newer connection may be ahead of it
				<-v.places
			} else {
				v.serve(f)
			}
			<-v.turn
		}
	}
}

// reply has a frame written.
func (v *visit) reply(f frame) {
	select {
	case v.answers <- f:
	case <-v.ended:
	}
}

// takeNotice takes in what a peer says of the member set.
func (v *visit) takeNotice(f frame) error {
	if len(f.body) > maxGreeting {
		return fmt.Errorf("%w: a notice of %d bytes", errFrame, len(f.body))
	}
	r, err := decodeRoster(f.body)
	if err != nil {
		return fmt.Errorf("notice of node %s: %w", v.peer.ID, err)
	}
	v.c.learn(r)
	v.reply(frame{kind: answer, number: f.number})
	return nil
}

// answer has a question served by the Handler.
func (c *Cluster) answer(ctx context.Context, from string, f frame, most int) frame {
	h := c.handler.Load()
	if h == nil {
		return frame{refusal, f.number, []byte("this host does not serve yet")}
	}
	body, err := (*h).Serve(ctx, from, f.body)
	if err == nil && len(body) > most {
		err = fmt.Errorf("an answer of %d bytes: %w", len(body), ErrTooLarge)
	}
	if err != nil {
		text := err.Error()
		return frame{failure, f.number, []byte(text[:min(len(text), maxReason)])}
	}
	return frame{answer, f.number, body}
}
